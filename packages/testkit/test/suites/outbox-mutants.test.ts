import { describe, expect, it } from 'vitest'
import { outboxMutants } from '../../src/mutants/outbox-mutants.ts'
import { ruledOutboxWorld } from '../../src/mutants/ruled-outbox-world.ts'
import { memoryOutboxFeatures } from '../../src/suites/outbox/outbox-world.ts'
import { outboxScenarios, testOutboxStore } from '../../src/suites/outbox/test-outbox-store.ts'
import { checkMutants } from '../support/check-mutants.ts'

testOutboxStore({ describe, it }, { name: 'RuledOutboxStore', open: ruledOutboxWorld(), features: memoryOutboxFeatures })
checkMutants(outboxScenarios(memoryOutboxFeatures), outboxMutants, ruledOutboxWorld(), { describe, expect, it })

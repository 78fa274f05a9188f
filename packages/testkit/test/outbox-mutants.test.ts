import { describe, expect, it } from 'vitest'
import { memoryOutboxFeatures } from '../src/outbox/memory-outbox-world.ts'
import { outboxMutants } from '../src/outbox/outbox-mutants.ts'
import { ruledOutboxWorld } from '../src/outbox/ruled-outbox-world.ts'
import { outboxScenarios, testOutboxStore } from '../src/outbox/test-outbox-store.ts'
import { checkMutants } from './support/check-mutants.ts'

testOutboxStore({ describe, it }, { name: 'RuledOutboxStore', open: ruledOutboxWorld(), features: memoryOutboxFeatures })
checkMutants(outboxScenarios(memoryOutboxFeatures), outboxMutants, ruledOutboxWorld(), { describe, expect, it })

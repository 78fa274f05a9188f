import { describe, expect, it } from 'vitest'
import { memoryOutboxFeatures, openMemoryOutboxWorld } from '../../src/suites/outbox/outbox-world.ts'
import { outboxScenarios } from '../../src/suites/outbox/test-outbox-store.ts'
import { outboxMutants } from '../mutants/outbox/outbox-mutants.ts'
import { checkMutants } from '../support/check-mutants.ts'

checkMutants(outboxScenarios(memoryOutboxFeatures), outboxMutants, openMemoryOutboxWorld, { describe, expect, it })

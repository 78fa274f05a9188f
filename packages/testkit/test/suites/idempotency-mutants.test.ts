import { describe, expect, it } from 'vitest'
import { memoryIdempotencyFeatures, openMemoryIdempotencyWorld } from '../../src/suites/idempotency/idempotency-world.ts'
import { idempotencyScenarios } from '../../src/suites/idempotency/test-idempotency-store.ts'
import { idempotencyMutants } from '../mutants/idempotency/idempotency-mutants.ts'
import { checkMutants } from '../support/check-mutants.ts'

checkMutants(idempotencyScenarios(memoryIdempotencyFeatures), idempotencyMutants, openMemoryIdempotencyWorld, { describe, expect, it })

import { describe, expect, it } from 'vitest'
import { keyRingScenarios } from '../../src/suites/keys/key-ring-scenarios.ts'
import { memoryKeyRingFeatures, openMemoryKeyRingWorld } from '../../src/suites/keys/key-ring-world.ts'
import { keyRingMutants } from '../mutants/keys/key-ring-mutants.ts'
import { checkMutants } from '../support/check-mutants.ts'

checkMutants(keyRingScenarios(memoryKeyRingFeatures), keyRingMutants, openMemoryKeyRingWorld, { describe, expect, it })

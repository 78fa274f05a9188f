import { describe, expect, it } from 'vitest'
import { memoryObjectFeatures, openMemoryObjectWorld } from '../../src/suites/objects/object-world.ts'
import { objectScenarios } from '../../src/suites/objects/test-object-store.ts'
import { objectMutants } from '../mutants/objects/object-mutants.ts'
import { checkMutants } from '../support/check-mutants.ts'

checkMutants(objectScenarios(memoryObjectFeatures), objectMutants, openMemoryObjectWorld, { describe, expect, it })

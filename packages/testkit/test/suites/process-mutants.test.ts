import { describe, expect, it } from 'vitest'
import { openMemoryProcessWorld } from '../../src/suites/process/process-world.ts'
import { processScenarios } from '../../src/suites/process/test-process-store.ts'
import { processMutants } from '../mutants/process/process-mutants.ts'
import { checkMutants } from '../support/check-mutants.ts'

checkMutants(processScenarios, processMutants, openMemoryProcessWorld, { describe, expect, it })

import { describe, expect, it } from 'vitest'
import { rateScenarios } from '../../src/suites/rates/rate-scenarios.ts'
import { openMemoryRateWorld } from '../../src/suites/rates/rate-world.ts'
import { rateMutants } from '../mutants/rates/rate-mutants.ts'
import { checkMutants } from '../support/check-mutants.ts'

checkMutants(rateScenarios, rateMutants, openMemoryRateWorld, { describe, expect, it })

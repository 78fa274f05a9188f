import { describe, expect, it } from 'vitest'
import { codecScenarios } from '../../src/suites/codecs/codec-scenarios.ts'
import { encryptedFeatures, openEncryptedWorld } from '../../src/suites/codecs/codec-world.ts'
import { codecMutants } from '../mutants/codecs/codec-mutants.ts'
import { checkMutants } from '../support/check-mutants.ts'

checkMutants(codecScenarios(encryptedFeatures), codecMutants, openEncryptedWorld, { describe, expect, it })

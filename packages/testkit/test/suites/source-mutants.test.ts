import { describe, expect, it } from 'vitest'
import { ruledBrokerClaims, ruledBrokerWorld } from '../../src/mutants/ruled-broker-world.ts'
import { sourceMutants } from '../../src/mutants/source-mutants.ts'
import { sourceScenarios, testSource } from '../../src/suites/broker/test-broker.ts'
import { checkMutants } from '../support/check-mutants.ts'

testSource({ describe, it }, { name: 'ruled broker', open: ruledBrokerWorld(), claims: ruledBrokerClaims })
checkMutants(sourceScenarios(ruledBrokerClaims), sourceMutants, ruledBrokerWorld(), { describe, expect, it })

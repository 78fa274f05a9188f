import { describe, expect, it } from 'vitest'
import { ruledBrokerClaims, ruledBrokerWorld } from '../../src/broker/ruled-broker-world.ts'
import { sourceMutants } from '../../src/broker/source-mutants.ts'
import { sourceScenarios, testSource } from '../../src/broker/test-source.ts'
import { checkMutants } from '../support/check-mutants.ts'

testSource({ describe, it }, { name: 'ruled broker', open: ruledBrokerWorld(), claims: ruledBrokerClaims })
checkMutants(sourceScenarios(ruledBrokerClaims), sourceMutants, ruledBrokerWorld(), { describe, expect, it })

import { describe, expect, it } from 'vitest'
import { publisherMutants } from '../../src/mutants/publisher-mutants.ts'
import { ruledBrokerClaims, ruledBrokerWorld } from '../../src/mutants/ruled-broker-world.ts'
import { publisherScenarios, testPublisher } from '../../src/suites/broker/test-broker.ts'
import { checkMutants } from '../support/check-mutants.ts'

testPublisher({ describe, it }, { name: 'ruled broker', open: ruledBrokerWorld(), claims: ruledBrokerClaims })
checkMutants(publisherScenarios(ruledBrokerClaims), publisherMutants, ruledBrokerWorld(), { describe, expect, it })

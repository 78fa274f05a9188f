import { describe, expect, it } from 'vitest'
import { publisherMutants } from '../../src/broker/publisher-mutants.ts'
import { ruledBrokerClaims, ruledBrokerWorld } from '../../src/broker/ruled-broker-world.ts'
import { publisherScenarios, testPublisher } from '../../src/broker/test-publisher.ts'
import { checkMutants } from '../support/check-mutants.ts'

testPublisher({ describe, it }, { name: 'ruled broker', open: ruledBrokerWorld(), claims: ruledBrokerClaims })
checkMutants(publisherScenarios(ruledBrokerClaims), publisherMutants, ruledBrokerWorld(), { describe, expect, it })

import { describe, expect, it } from 'vitest'
import { publisherScenarios, testPublisher } from '../../src/suites/broker/test-broker.ts'
import { decoratedBrokerClaims as claims, decoratedBroker } from '../mutants/broker/decorated-broker.ts'
import { publisherMutants } from '../mutants/broker/publisher-mutants.ts'
import { checkMutants } from '../support/check-mutants.ts'

// The decorated broker without a defect claims more than the MemoryBroker itself: it has to keep those promises too.
testPublisher({ describe, it }, { name: 'decorated broker', open: decoratedBroker(), claims })
checkMutants(publisherScenarios(claims), publisherMutants, decoratedBroker(), { describe, expect, it })

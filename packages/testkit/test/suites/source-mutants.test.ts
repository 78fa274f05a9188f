import { describe, expect, it } from 'vitest'
import { sourceScenarios, testSource } from '../../src/suites/broker/test-broker.ts'
import { decoratedBrokerClaims as claims, decoratedBroker } from '../mutants/broker/decorated-broker.ts'
import { sourceMutants } from '../mutants/broker/source-mutants.ts'
import { checkMutants } from '../support/check-mutants.ts'

// The decorated broker without a defect claims more than the MemoryBroker itself: it has to keep those promises too.
testSource({ describe, it }, { name: 'decorated broker', open: decoratedBroker(), claims })
checkMutants(sourceScenarios(claims), sourceMutants, decoratedBroker(), { describe, expect, it })

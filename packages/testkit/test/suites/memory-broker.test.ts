import { describe, it } from 'vitest'
import { memoryBrokerClaims, openMemoryBrokerWorld } from '../../src/suites/broker/broker-world.ts'
import { testPublisher, testSource } from '../../src/suites/broker/test-broker.ts'

const subject = { name: 'MemoryBroker', open: openMemoryBrokerWorld, claims: memoryBrokerClaims }
testSource({ describe, it }, subject)
testPublisher({ describe, it }, subject)

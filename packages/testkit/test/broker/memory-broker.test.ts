import { describe, it } from 'vitest'
import { memoryBrokerClaims, openMemoryBrokerWorld } from '../../src/broker/memory-broker-world.ts'
import { testPublisher } from '../../src/broker/test-publisher.ts'
import { testSource } from '../../src/broker/test-source.ts'

const subject = { name: 'MemoryBroker', open: openMemoryBrokerWorld, claims: memoryBrokerClaims }
testSource({ describe, it }, subject)
testPublisher({ describe, it }, subject)

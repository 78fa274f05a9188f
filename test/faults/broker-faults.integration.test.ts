import { ResultTable } from '@ackord/testkit/suites'
import { afterAll } from 'vitest'
import { kafkaHome } from '../../scripts/servers/kafka-distribution.mjs'
import { isProof } from '../../scripts/test-depth.mjs'
import { amqpBroker } from './brokers/amqp-broker.ts'
import type { FaultBrokerKind } from './brokers/broker.ts'
import { brokerScenarios } from './brokers/broker-scenarios.ts'
import { httpBroker } from './brokers/http-broker.ts'
import { kafkaBroker } from './brokers/kafka-broker.ts'
import { mqttBroker } from './brokers/mqtt-broker.ts'
import { natsBroker } from './brokers/nats-broker.ts'
import { rabbitmqBroker } from './brokers/rabbitmq-broker.ts'
import { redisStreamsBroker } from './brokers/redis-streams-broker.ts'
import { sqsBroker } from './brokers/sqs-broker.ts'
import { registerFaults } from './register.ts'

const results = new ResultTable()
// PostgreSQL is not a broker; the store faults cover its publish and settle.
const kinds: readonly FaultBrokerKind[] = isProof
  ? [rabbitmqBroker, natsBroker, kafkaBroker, redisStreamsBroker, httpBroker, sqsBroker, amqpBroker, mqttBroker]
  : [redisStreamsBroker, ...(kafkaHome() === undefined ? [] : [kafkaBroker])]

for (const { name, open } of kinds) registerFaults({ suite: 'faults of a broker', name, scenarios: brokerScenarios, open, results })

afterAll(() => {
  console.log(results.format())
})

import { randomUUID } from 'node:crypto'
import { connect } from 'node:net'
import { startFaultProxy } from '@ackord/testkit'
import { Kafka, logLevel } from 'kafkajs'
import { expect, it } from 'vitest'
import { fromKafkaJs, type KafkaRecord } from '../../src/index.ts'
import { until } from '../support/world.ts'

const kafkaUrl = process.env['KAFKA_URL'] ?? 'kafka://127.0.0.1:9092'
const record = (text: string): KafkaRecord => ({ key: null, value: Buffer.from(text), headers: {} })

it('a producer that is closed while a send has no answer leaves no connection behind', async () => {
  await using proxy = await startFaultProxy(kafkaUrl)
  const client = new Kafka({
    brokers: [new URL(kafkaUrl).host],
    logLevel: logLevel.NOTHING,
    requestTimeout: 500,
    retry: { retries: 2, initialRetryTime: 50 },
    // Always connects to the proxy, whatever address the cluster advertises.
    socketFactory: ({ onConnect }) => connect({ host: '127.0.0.1', port: proxy.port }, onConnect),
  })
  const topic = `ackord-test-${randomUUID()}`
  const producer = fromKafkaJs(client, { producer: { allowAutoTopicCreation: true } }).producer()
  await producer.connect()
  await producer.send(topic, [record('before')])
  proxy.swallow()
  const sending = producer.send(topic, [record('silent')])
  await producer.close()
  // KafkaJS resends unanswered requests, even when it is closed.
  await expect(sending).resolves.toBeUndefined()
  await until(() => proxy.connections === 0)
})

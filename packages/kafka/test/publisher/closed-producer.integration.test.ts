import { expect, it } from 'vitest'
import { fromKafkaJs, type KafkaRecord } from '../../src/index.ts'
import { kafkaUrl, openProxied } from '../support/connection.ts'
import { openWorld, until } from '../support/world.ts'

const record = (text: string): KafkaRecord => ({ key: null, value: Buffer.from(text), headers: {} })

it('a producer that is closed while a send has no answer leaves no connection behind', async () => {
  await using world = await openWorld()
  const topic = await world.topic()
  await using proxied = await openProxied(kafkaUrl, { requestTimeout: 500 })
  const producer = fromKafkaJs(proxied.client).producer()
  await producer.connect()
  await producer.send(topic, [record('before')])
  for (const proxy of proxied.proxies) proxy.swallow()
  const sending = producer.send(topic, [record('silent')])
  await producer.close()
  // KafkaJS resends unanswered requests, even when it is closed.
  await expect(sending).resolves.toBeUndefined()
  await until(() => proxied.proxies.every(({ connections }) => connections === 0))
})

import { recordingLogger, settlePromises, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { type KafkaMessage, kafkaPublisher, kafkaSource } from '../../src/index.ts'
import { FakeKafka } from '../support/fake-kafka.ts'
import { open, pull } from '../support/world.ts'

const whole = { ce_specversion: '1.0', ce_id: 'h1', ce_type: 'test.event', ce_source: '/test' }

async function fetchOne(
  headers: KafkaMessage['headers'],
  publish?: () => Promise<readonly [{ ok: false; error: Error; permanent: true }]>,
) {
  const kafka = new FakeKafka()
  const runtime = new VirtualRuntime()
  const logger = recordingLogger()
  const deadLetter = { publisher: publish === undefined ? kafkaPublisher(kafka, { runtime }) : { publish }, destination: 'orders-dead' }
  const messages = open(kafkaSource(kafka, { topics: ['orders'], group: 'billing', runtime, logger, deadLetter }))
  const pulling = pull(messages)
  await settlePromises()
  kafka.last.assign([0])
  const native = { topic: 'orders', partition: 0, offset: '7', timestamp: '1767225600000', key: null, value: Buffer.from('data'), headers }
  kafka.last.events.fetched({ topic: 'orders', partition: 0 }, [native])
  return { kafka, runtime, logger, message: await pulling }
}

describe('a rejected record whose attributes cannot be written again', () => {
  it.each([
    ['a time that is none', { ce_time: 'yesterday' }, { name: 'time', value: 'yesterday' }],
    ['a name in the wrong case', { ce_partitionKey: 'a' }, { name: 'partitionKey', value: 'a' }],
    ['the name of the data', { ce_data: 'b' }, { name: 'data', value: 'b' }],
    ['the name of the prototype', { ce___proto__: 'c' }, { name: '__proto__', value: 'c' }],
  ])('is in the dead letter, and its offset is committed: %s', async (_title, more, entry) => {
    const { kafka, runtime, logger, message } = await fetchOne({ ...whole, ...more, ce_expirytime: 'never' })
    expect(await message.reject(new Error('it makes no sense'))).toBe(true)
    await runtime.advance(100)
    expect(kafka.last.committed).toEqual({ 0: '8' })
    const [record] = kafka.sent.flatMap(({ records }) => records)
    expect(record?.headers).toMatchObject({ ce_id: 'h1', ce_type: 'ackord.deadletter', ce_deadletterform: 'envelope' })
    const envelope = JSON.parse(String(record?.value))
    expect(envelope).toMatchObject({ reason: 'it makes no sense', data_base64: Buffer.from('data').toString('base64') })
    expect(envelope.attributes).toContainEqual(entry)
    expect(logger.at('error')).toEqual([])
  })
})

describe('a record that the dead letter refuses in every form', () => {
  it('is skipped, and the log has its offset', async () => {
    const refusal = { ok: false, error: new Error('no'), permanent: true } as const
    const { kafka, runtime, logger, message } = await fetchOne(whole, async () => [refusal])
    expect(await message.reject(new Error('it makes no sense'))).toBe(true)
    await runtime.advance(100)
    expect(kafka.last.committed).toEqual({ 0: '8' })
    expect(logger.at('error').map(({ fields }) => fields)).toContainEqual({ topic: 'orders', partition: 0, offset: '7' })
  })
})

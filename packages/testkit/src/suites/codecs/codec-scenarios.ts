import assert from 'node:assert/strict'
import { Message } from '@ackord/core'
import { assertMessage, assertRejected, type CodecFeatures, type CodecScenario, decode, encode, message, sent } from './codec-world.ts'

const everyByte = Uint8Array.from({ length: 256 }, (_, index) => index)

const baseScenarios: readonly CodecScenario[] = [
  {
    name: 'another process decodes a message to its exact bytes and attributes',
    basic: true,
    async run(open) {
      await using world = await open()
      const other = await world.another()
      const large = Uint8Array.from({ length: 1_000_003 }, (_, index) => (index * 31) % 251)
      for (const data of ['{"total":7}', everyByte, everyByte.subarray(10, 20), new Uint8Array(), large]) {
        const original = message(data, { subject: 'anna', partitionkey: 'o1', traceparent: '00-1-2-01' })
        const encoded = await encode(world.codec, original)
        const isChanged = Buffer.compare(encoded.data, original.data) !== 0
        assert.ok(isChanged || original.data.byteLength === 0, 'the codec of this world must change all data')
        assertMessage(await decode(other, sent(encoded)), original)
      }
    },
  },
  {
    name: 'the content type is restored, also if there is none',
    async run(open) {
      await using world = await open()
      for (const datacontenttype of ['text/plain; charset=utf-8', 'application/octet-stream', undefined]) {
        const original = message('data', { datacontenttype })
        assertMessage(await decode(world.codec, sent(await encode(world.codec, original))), original)
      }
    },
  },
  {
    name: 'an encoded message has the attributes that brokers and consumers need',
    async run(open) {
      await using world = await open()
      const original = message('data', { subject: 'anna', partitionkey: 'o1', time: '2026-11-18T12:00:00Z' })
      const { attributes } = await encode(world.codec, original)
      for (const name of ['id', 'source', 'type', 'specversion', 'partitionkey', 'subject', 'time']) {
        assert.equal(attributes[name], original.attributes[name], `the attribute '${name}'`)
      }
      for (const name of Object.keys(attributes)) assert.match(name, /^[a-z0-9]{1,20}$/, 'names of attributes must be those of CloudEvents')
    },
  },
  {
    name: 'neither the message that is encoded nor the one that is decoded is changed',
    async run(open) {
      await using world = await open()
      const [original, copy] = [message('{"total":7}'), message('{"total":7}')]
      const encoded = await encode(world.codec, original)
      assertMessage(original, copy)
      const [received, copyOfReceived] = [sent(encoded), sent(encoded)]
      await decode(world.codec, received)
      assertMessage(received, copyOfReceived)
    },
  },
  {
    name: 'what the codec returns is settled with its message',
    async run(open) {
      await using world = await open()
      const acked: string[] = []
      const settled = (data: Uint8Array, name: string) =>
        new Message(data, message('').attributes, { acking: { ack: () => void acked.push(name), nack() {}, reject() {} } })
      const encoded = await encode(world.codec, settled(message('data').data, 'encoded'))
      await encoded.ack()
      const decoded = await decode(world.codec, settled(encoded.data, 'decoded').withAttributes(encoded.attributes))
      await decoded.ack()
      assert.deepEqual(acked, ['encoded', 'decoded'])
    },
  },
  {
    name: 'a message that the codec has not encoded is returned as it is',
    basic: true,
    async run(open) {
      await using world = await open()
      for (const original of [
        message('{"total":7}'),
        message(everyByte),
        message(new Uint8Array()),
        message('data', { datacontenttype: undefined }),
      ]) {
        const copy = sent(original)
        assertMessage(await decode(world.codec, original), copy)
      }
    },
  },
  {
    name: 'attributes that a trace or a dead letter adds or changes survive, and do not prevent decoding',
    async run(open) {
      await using world = await open()
      const original = message('data', { traceparent: '00-1-2-01' })
      const attributes = { traceparent: '00-3-4-01', tracestate: 'a=b', deadlettererror: 'refused', subject: 'anna' }
      const encoded = sent(await encode(world.codec, original), { attributes })
      assertMessage(await decode(world.codec, encoded), original.withAttributes(attributes))
    },
  },
  {
    name: 'a message can be encoded again, as when its transaction is retried, and decoded again',
    async run(open) {
      await using world = await open()
      const original = message('{"total":7}')
      const [first, second] = [sent(await encode(world.codec, original)), sent(await encode(world.codec, original))]
      for (const encoded of [first, second, first]) assertMessage(await decode(await world.another(), encoded), original)
    },
  },
  {
    name: 'messages are encoded and decoded concurrently',
    async run(open) {
      await using world = await open()
      const originals = Array.from({ length: 50 }, (_, index) => message(`{"total":${index}}`, { id: `o${index}` }))
      const encoded = await Promise.all(originals.map((original) => encode(world.codec, original)))
      const decoded = await Promise.all(encoded.map((one) => decode(world.codec, sent(one))))
      for (const [index, original] of originals.entries()) assertMessage(decoded[index] ?? message(''), original)
    },
  },
]

function boundScenarios(bound: CodecFeatures['bound']): readonly CodecScenario[] {
  return [
    {
      name: 'data that was copied to another message is rejected for good',
      async run(open) {
        await using world = await open()
        const encoded = await encode(world.codec, message('{"total":7}'))
        for (const name of bound) {
          for (const value of ['another', undefined])
            await assertRejected(world.codec, sent(encoded, { attributes: { [name]: value } }), `another ${name}`)
        }
        assertMessage(await decode(world.codec, sent(encoded)), message('{"total":7}'))
      },
    },
  ]
}

const authenticatedScenarios: readonly CodecScenario[] = [
  {
    name: 'encoded data that was changed anywhere is rejected for good',
    async run(open) {
      await using world = await open()
      const encoded = await encode(world.codec, message('{}'))
      const { data } = encoded
      for (let index = 0; index < data.byteLength; index += 1) {
        const flipped = new Uint8Array(data)
        flipped[index] = (flipped[index] ?? 0) ^ 1
        await assertRejected(world.codec, sent(encoded, { data: flipped }), `a change of byte ${index}`)
        await assertRejected(world.codec, sent(encoded, { data: data.subarray(0, index) }), `a length of ${index} bytes`)
      }
      await assertRejected(world.codec, sent(encoded, { data: Buffer.concat([data, Buffer.alloc(1)]) }), 'an additional byte')
    },
  },
]

/** All scenarios for codecs with these features: the base, and the scenarios that each feature adds. */
export function codecScenarios({ bound, authenticated }: CodecFeatures): readonly CodecScenario[] {
  return [...baseScenarios, ...(bound.length > 0 ? boundScenarios(bound) : []), ...(authenticated ? authenticatedScenarios : [])]
}

import { AckordError, Message, type RawMessage } from '@ackord/core'
import type { PayloadCodec } from '@ackord/core/payload'
import { eventLoopTurn } from '../../../src/helpers/virtual-runtime.ts'
import { type OpenCodecWorld, openEncryptedWorld } from '../../../src/suites/codecs/codec-world.ts'
import { type Mutant, mutantsOf } from '../../support/mutant.ts'

/** Replaces methods of a codec. Called once per process, with the real codec. */
type Change = (real: PayloadCodec) => Partial<PayloadCodec>

function brokenCodec(caughtBy: string, defects: Readonly<Record<string, Change>>): Mutant<OpenCodecWorld>[] {
  return mutantsOf(caughtBy, defects, (change) => async () => {
    const world = await openEncryptedWorld()
    const decorate = (real: PayloadCodec) => ({ ...real, ...change(real) })
    return { ...world, codec: decorate(world.codec), another: async () => decorate(await world.another()) }
  })
}

const withEncoded =
  (change: (encoded: RawMessage, original: RawMessage) => RawMessage): Change =>
  (real) => ({ encode: async (message, call) => change(await real.encode(message, call), message) })

const withDecoded =
  (change: (decoded: RawMessage, encoded: RawMessage) => RawMessage): Change =>
  (real) => ({ decode: async (message, call) => change(await real.decode(message, call), message) })

/** Reads what the real codec rejects. */
const forgiving =
  (change: (error: unknown, message: RawMessage) => RawMessage): Change =>
  (real) => ({
    async decode(message, call) {
      try {
        return await real.decode(message, call)
      } catch (error) {
        return change(error, message)
      }
    },
  })

const retried = (): never => {
  throw new Error('cannot be read')
}

/** Of all processes. Encrypted data is never the same twice. */
const decodedBefore = new Set<string>()

/** One mutant or more per scenario. */
export const codecMutants: readonly Mutant<OpenCodecWorld>[] = [
  ...brokenCodec('another process decodes a message to its exact bytes and attributes', {
    'data is text': withDecoded((decoded) => decoded.copy(new TextEncoder().encode(new TextDecoder().decode(decoded.data)))),
    'data is cut': withDecoded((decoded) => decoded.copy(decoded.data.subarray(0, 1_000_000))),
    'empty data is null': withDecoded((decoded) => (decoded.data.byteLength === 0 ? decoded.copy(Buffer.from('null')) : decoded)),
    'the mark is left': withDecoded((decoded) => decoded.withAttributes({ ackordencrypted: '1' })),
    'an attribute is lost': withDecoded((decoded) => decoded.withAttributes({ subject: undefined })),
    'only its own process can decode': () => {
      const own = new WeakMap<Uint8Array, RawMessage>()
      const results: RawMessage[] = []
      return {
        encode(message) {
          const encoded = message.copy(Buffer.from(`#${results.push(message) - 1}`))
          own.set(encoded.data, message)
          return encoded
        },
        decode: (message) => own.get(message.data) ?? message,
      }
    },
  }),
  ...brokenCodec('the content type is restored, also if there is none', {
    'every content type is JSON': withDecoded((decoded) => decoded.withAttributes({ datacontenttype: 'application/json' })),
    'parameters are lost': withDecoded((decoded) => decoded.withAttributes({ datacontenttype: decoded.dataContentType?.split(';')[0] })),
    'there always is a content type': withDecoded((decoded) =>
      decoded.withAttributes({ datacontenttype: decoded.dataContentType ?? 'application/octet-stream' }),
    ),
  }),
  ...brokenCodec('an encoded message has the attributes that brokers and consumers need', {
    'the partition key is hidden': withEncoded((encoded) => encoded.withAttributes({ partitionkey: undefined })),
    'the id is replaced': withEncoded((encoded) => encoded.withAttributes({ id: 'hidden' })),
    'an attribute has a name that is invalid': withEncoded((encoded) => encoded.withAttributes({ 'Compressed-With': 'gzip' })),
  }),
  ...brokenCodec('neither the message that is encoded nor the one that is decoded is changed', {
    'data is encoded in place': (real) => ({
      async encode(message, call) {
        const encoded = await real.encode(message, call)
        message.data.fill(0)
        return encoded
      },
    }),
    'data is decoded in place': (real) => ({
      async decode(message, call) {
        const decoded = await real.decode(message, call)
        message.data.fill(0)
        return decoded
      },
    }),
  }),
  ...brokenCodec('what the codec returns is settled with its message', {
    'an encoded message is a new one': withEncoded(({ data, attributes }) => new Message(data, attributes)),
    'a decoded message is a new one': withDecoded(({ data, attributes }) => new Message(data, attributes)),
  }),
  ...brokenCodec('a message that the codec has not encoded is returned as it is', {
    'plain messages are rejected': (real) => ({
      decode: (message, call) => (message.attributes['ackordencrypted'] === undefined ? retried() : real.decode(message, call)),
    }),
    'plain messages become empty': withDecoded((decoded, encoded) => (decoded === encoded ? decoded.copy(new Uint8Array()) : decoded)),
    'plain messages get a content type': withDecoded((decoded, encoded) =>
      decoded === encoded ? decoded.withAttributes({ datacontenttype: 'application/json' }) : decoded,
    ),
  }),
  ...brokenCodec('attributes that a trace or a dead letter adds or changes survive, and do not prevent decoding', {
    'the first attributes are restored': (real) => {
      const first = new Map<unknown, RawMessage>()
      return {
        async encode(message, call) {
          first.set(message.id, message)
          return await real.encode(message, call)
        },
        async decode(message, call) {
          const decoded = await real.decode(message, call)
          return new Message(decoded.data, first.get(message.id)?.attributes ?? decoded.attributes)
        },
      }
    },
    'all attributes are authenticated': (real) => ({
      decode: (message, call) => (message.attributes['deadlettererror'] === undefined ? real.decode(message, call) : retried()),
    }),
  }),
  ...brokenCodec('a message can be encoded again, as when its transaction is retried, and decoded again', {
    'an id is encoded once': (real) => {
      const seen = new Set<unknown>()
      return {
        encode(message, call) {
          if (seen.has(message.id)) throw new Error('encoded already')
          seen.add(message.id)
          return real.encode(message, call)
        },
      }
    },
    'a message is decoded once': (real) => ({
      decode(message, call) {
        const data = Buffer.from(message.data).toString('hex')
        if (decodedBefore.has(data)) throw new Error('decoded already')
        decodedBefore.add(data)
        return real.decode(message, call)
      },
    }),
  }),
  ...brokenCodec('messages are encoded and decoded concurrently', {
    'messages share a buffer': (real) => {
      let shared: RawMessage | undefined
      return {
        async encode(message, call) {
          shared = message
          await eventLoopTurn()
          return await real.encode(message.copy(shared.data), call)
        },
      }
    },
  }),
  ...brokenCodec('data that was copied to another message is rejected for good', {
    'the id is not bound': (real) => ({
      encode: (message, call) => real.encode(message.withAttributes({ id: 'o1' }), call),
      decode: (message, call) => real.decode(message.withAttributes({ id: 'o1' }), call),
    }),
    'the type is not bound': (real) => ({
      encode: (message, call) => real.encode(message.withAttributes({ type: 'order.placed' }), call),
      decode: (message, call) => real.decode(message.withAttributes({ type: 'order.placed' }), call),
    }),
    'such data is retried': forgiving(retried),
  }),
  ...brokenCodec('encoded data that was changed anywhere is rejected for good', {
    'such data is passed on': forgiving((_, message) => message),
    'such data is retried': forgiving(retried),
    'data of any length is accepted': forgiving((error, message) => {
      if (message.data.byteLength < 40) return message
      throw error instanceof Error ? error : new AckordError('ACKORD_PAYLOAD_INVALID', 'damaged', { retryable: false })
    }),
    'bytes behind the end are ignored': (real) => ({
      async decode(message, call) {
        try {
          return await real.decode(message, call)
        } catch {
          return await real.decode(message.copy(message.data.subarray(0, -1)), call)
        }
      },
    }),
  }),
]

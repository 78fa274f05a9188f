import { enter, Message, type RawMessage, rootContext, systemRuntime } from '@ackord/core'
import { encodePayload, type PayloadCodec } from '@ackord/core/payload'
import { describe, expect, it } from 'vitest'
import { deferred } from '../../../testkit/src/helpers/tracked-message.ts'
import { type NewOutboxRecord, recordEncoder } from '../../src/index.ts'

function record(id: string, delay?: number): NewOutboxRecord {
  const attributes = { id, type: 'order.placed', source: '/orders', specversion: '1.0' }
  return { destination: 'events', message: new Message(new TextEncoder().encode(`"${id}"`), attributes), delay }
}

/** Puts an exclamation mark behind the data, when the signal of the message is there. */
function shouting(signals: Readonly<Record<string, Promise<void>>> = {}): PayloadCodec & { readonly encoded: string[] } {
  const encoded: string[] = []
  return {
    encoded,
    async encode(message) {
      await signals[message.id ?? '']
      encoded.push(String(message.id))
      return message.copy(new TextEncoder().encode(`${textOf(message)}!`))
    },
    decode: (message) => message,
  }
}

function textOf({ data }: RawMessage): string {
  return new TextDecoder().decode(data)
}

function encoderOf(...codecs: readonly PayloadCodec[]) {
  const encode = recordEncoder({ codecs }, systemRuntime)
  if (encode === undefined) throw new Error('There are codecs.')
  return encode
}

describe('the encoder of an outbox', () => {
  it('is not there without codecs', () => {
    expect(recordEncoder({}, systemRuntime)).toBeUndefined()
    expect(recordEncoder({ codecs: [] }, systemRuntime)).toBeUndefined()
  })

  it('keeps everything else of a record', async () => {
    const [encoded] = await encoderOf(shouting())([record('e1', 500)])
    expect(encoded).toMatchObject({ destination: 'events', delay: 500, message: { id: 'e1', type: 'order.placed' } })
    expect(textOf(encoded?.message as RawMessage)).toBe('"e1"!')
  })

  it('resolves in the order of the calls for a transaction, and waits for no other transaction', async () => {
    const go = deferred()
    const encode = encoderOf(shouting({ slow: go.promise }))
    const [one, other] = [{}, {}]
    const resolved: string[] = []
    const call = (id: string, transaction: object) => encode([record(id)], transaction).then(() => void resolved.push(id))
    const calls = [call('slow', one), call('fast', one)]
    await call('elsewhere', other)
    expect(resolved).toEqual(['elsewhere'])
    go.resolve()
    await Promise.all(calls)
    expect(resolved).toEqual(['elsewhere', 'slow', 'fast'])
  })

  it('encodes after a call that has failed', async () => {
    const failing: PayloadCodec = {
      async encode(message) {
        if (message.id === 'e1') throw new Error('the bucket is gone')
        return message
      },
      decode: (message) => message,
    }
    const encode = encoderOf(failing)
    const transaction = {}
    const results = await Promise.allSettled([encode([record('e1')], transaction), encode([record('e2')], transaction)])
    expect(results).toMatchObject([{ status: 'rejected', reason: { code: 'ACKORD_CODEC_FAILED' } }, { status: 'fulfilled' }])
  })

  it('stores what encodePayload() has encoded as it is', async () => {
    const codec = shouting()
    const { destination, message } = record('e1')
    const early = await encodePayload(message, [codec])
    const [stored] = await encoderOf(codec)([{ destination, message: early }])
    expect(stored?.message).toBe(early)
    expect(codec.encoded).toEqual(['e1'])
  })

  it('accepts a message of another copy of the package', async () => {
    const { destination, message } = record('e1')
    const foreign = { data: message.data, attributes: message.attributes } as RawMessage
    const [encoded] = await encoderOf(shouting())([{ destination, message: foreign }])
    expect(encoded?.message).toBeInstanceOf(Message)
    expect(textOf(encoded?.message as RawMessage)).toBe('"e1"!')
  })

  it('ends with the context in which it is called', async () => {
    const controller = new AbortController()
    const reason = new Error('the time of the handler is over')
    const encoding = enter(rootContext({ signal: controller.signal }), () =>
      encoderOf(shouting({ e1: new Promise(() => {}) }))([record('e1')]),
    )
    controller.abort(reason)
    await expect(encoding).rejects.toBe(reason)
  })
})

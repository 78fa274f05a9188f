import { getEventListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { AckordError } from '../../src/errors.ts'
import { Message, type RawMessage } from '../../src/message/message.ts'
import type { CodecCallOptions, PayloadCodec } from '../../src/payload/codec.ts'
import { codecChain } from '../../src/payload/codec-chain.ts'
import { systemRuntime } from '../../src/ports/runtime.ts'
import { bytesOf, placed, received, textOf, wrapping } from '../support/payload-world.ts'
import { deferred } from '../support/router-world.ts'
import { settlePromises, VirtualRuntime } from '../support/virtual-runtime.ts'

type Step = PayloadCodec['encode']

/** The same in both directions. */
function both(step: Step): PayloadCodec {
  return { encode: step, decode: step }
}

function waiting(codec: PayloadCodec): PayloadCodec {
  return {
    encode: async (message, call) => await codec.encode(message, call),
    decode: async (message, call) => await codec.decode(message, call),
  }
}

function openChain(codecs: readonly PayloadCodec[], codecTimeout?: number) {
  const runtime = new VirtualRuntime()
  const chain = codecChain({ codecs, codecTimeout }, runtime)
  if (chain === undefined) throw new Error('no chain')
  return { runtime, chain }
}

describe('codecChain()', () => {
  it('is undefined without codecs, and checks its options nevertheless', () => {
    expect(codecChain({}, systemRuntime)).toBeUndefined()
    expect(codecChain({ codecs: [] }, systemRuntime)).toBeUndefined()
    const invalid = (option: string) => expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', option })
    expect(() => codecChain({ codecTimeout: 0 }, systemRuntime)).toThrow(invalid('codecTimeout'))
    expect(() => codecChain({ codecTimeout: Infinity }, systemRuntime)).toThrow(invalid('codecTimeout'))
    expect(() => codecChain({ codecs: wrapping('a') as never }, systemRuntime)).toThrow(invalid('codecs'))
    expect(() => codecChain({ codecs: [wrapping('a'), { encode() {} } as never] }, systemRuntime)).toThrow(invalid('codecs[1].decode'))
    expect(() => codecChain({ codecs: [undefined as never] }, systemRuntime)).toThrow(invalid('codecs[0].encode'))
  })

  it('encodes in the order of the codecs and decodes in reverse, whether or not they wait', async () => {
    const [a, b, c] = [wrapping('a'), wrapping('b'), wrapping('c')]
    for (const codecs of [
      [a, b, c],
      [waiting(a), b, c],
      [a, waiting(b), c],
      [a, b, waiting(c)],
      [waiting(a), waiting(b), waiting(c)],
    ]) {
      const { chain } = openChain(codecs)
      const sent = await chain.encode(placed('x'))
      expect(textOf(sent)).toBe('c(b(a(x)))')
      expect(textOf(await chain.decode(received(sent)))).toBe('x')
    }
  })

  it('returns no promise if no codec does, and a promise from the first that does', () => {
    const plain = openChain([wrapping('a'), wrapping('b')]).chain
    const sent = plain.encode(placed('x'))
    expect(sent).toBeInstanceOf(Message)
    expect(plain.decode(sent as RawMessage)).toBeInstanceOf(Message)
    expect(openChain([wrapping('a'), waiting(wrapping('b'))]).chain.encode(placed('x'))).toBeInstanceOf(Promise)
  })

  it('accepts promises of other libraries', async () => {
    class Later {
      readonly #message: RawMessage
      constructor(message: RawMessage) {
        this.#message = message
      }
      // biome-ignore lint/suspicious/noThenProperty: this is what such a promise has.
      then(resolve: (value: RawMessage) => void) {
        resolve(this.#message.copy(bytesOf('later')))
      }
    }
    const { chain } = openChain([both((message) => new Later(message) as unknown as Promise<RawMessage>)])
    expect(textOf(await chain.encode(placed('x')))).toBe('later')
  })

  it('does not change with the array of the caller, and calls codecs as methods', async () => {
    class Prefixing implements PayloadCodec {
      readonly #prefix = 'own:'
      encode(message: RawMessage) {
        return message.copy(bytesOf(`${this.#prefix}${textOf(message)}`))
      }
      decode(message: RawMessage) {
        return message.copy(bytesOf(textOf(message).slice(this.#prefix.length)))
      }
    }
    const codecs: PayloadCodec[] = [new Prefixing()]
    const { chain } = openChain(codecs)
    codecs.length = 0
    const sent = await chain.encode(placed('x'))
    expect([textOf(sent), textOf(await chain.decode(sent))]).toEqual(['own:x', 'x'])
  })

  describe('a message that was encoded', () => {
    it('is not encoded again by the same codecs, with whatever attributes a trace adds', async () => {
      const codecs = [wrapping('a'), waiting(wrapping('b'))]
      const [{ chain }, { chain: other }] = [openChain(codecs), openChain(codecs)]
      const sent = await chain.encode(placed('x'))
      expect(chain.encode(sent)).toBe(sent)
      const traced = sent.withAttributes({ traceparent: '00-1-2-01' })
      expect(other.encode(traced)).toBe(traced)
    })

    it('is encoded by other codecs, in another order, and by more of them', async () => {
      const [a, b] = [wrapping('a'), wrapping('b')]
      const sent = await openChain([a, b]).chain.encode(placed('x'))
      const texts = [[b], [b, a], [a, b, a]].map((codecs) => textOf(openChain(codecs).chain.encode(sent) as RawMessage))
      expect(texts).toEqual(['b(b(a(x)))', 'a(b(b(a(x))))', 'a(b(a(b(a(x)))))'])
    })

    it.each(['id', 'source', 'type'])('is encoded again under another identity, for which its bytes are of no use: %s', async (name) => {
      const { chain } = openChain([wrapping('a')])
      const sent = await chain.encode(placed('x'))
      expect(textOf(await chain.encode(sent.withAttributes({ [name]: 'another' })))).toBe('a(a(x))')
    })

    it('is remembered by its new bytes: bytes that no codec changed may belong to several messages', async () => {
      const text = 'x'
      const codec = both((message) => (message.subject === undefined ? message : message.copy(bytesOf(`${textOf(message)}!`))))
      const { chain } = openChain([codec])
      const first = placed(text)
      expect(await chain.encode(first)).toBe(first)
      expect(textOf(await chain.encode(first.withAttributes({ subject: 's' })))).toBe('x!')
    })
  })

  describe('a codec that misbehaves', () => {
    const wrong: readonly [string, (message: RawMessage) => unknown][] = [
      ['undefined', () => undefined],
      ['null', () => null],
      ['an instance of Uint8Array', ({ data }) => data],
      ['a plain object', ({ data, attributes }) => ({ data, attributes })],
      ['a message with a string as data', (message) => message.copy('text')],
      ['a message with another id', (message) => message.withAttributes({ id: 'o2' })],
      ['a message with another source', (message) => message.withAttributes({ source: undefined })],
      ['a message with another type', (message) => message.withAttributes({ type: 't' })],
      ['a message with another partitionkey', (message) => message.withAttributes({ partitionkey: 'p' })],
      ['a message that is no copy', ({ data, attributes }) => new Message(data, attributes)],
    ]
    it.each(wrong)('is reported if it returns %s', async (shown, step) => {
      const message = new Message(bytesOf('a secret text'), placed().attributes, { acking: { ack() {}, nack() {}, reject() {} } })
      const expected = expect.objectContaining({ code: 'ACKORD_CODEC_FAILED', retryable: true, message: expect.stringContaining(shown) })
      for (const codecs of [[both(step as Step)], [wrapping('a'), both(step as Step)]]) {
        expect(() => openChain(codecs).chain.encode(message)).toThrow(expected)
        expect(() => openChain(codecs.toReversed()).chain.decode(message)).toThrow(expected)
      }
      const later = both((async (own: RawMessage) => await step(own)) as Step)
      await expect(openChain([later, wrapping('a')]).chain.encode(message)).rejects.toEqual(expected)
      await expect(openChain([wrapping('a'), later]).chain.decode(message)).rejects.toEqual(expected)
    })

    it('is the cause of an error that names the message, but not its data', async () => {
      const cause = new TypeError('unexpected end')
      const fail = () => {
        throw cause
      }
      const expected = expect.objectContaining({
        code: 'ACKORD_CODEC_FAILED',
        retryable: true,
        cause,
        message: "A codec failed to encode a message of type 'order.placed' (id 'o1').",
      })
      expect(() => openChain([both(fail)]).chain.encode(placed('a secret text'))).toThrow(expected)
      await expect(openChain([both(async () => fail())]).chain.encode(placed('a secret text'))).rejects.toEqual(expected)
      await expect(openChain([waiting(wrapping('a')), both(fail)]).chain.encode(placed('a secret text'))).rejects.toEqual(expected)
    })

    it('decides with an error of Ackord whether the message is retried', async () => {
      const error = new AckordError('ACKORD_PAYLOAD_INVALID', 'The data is damaged.', { retryable: false })
      const fail = () => {
        throw error
      }
      expect(() => openChain([both(fail)]).chain.decode(placed())).toThrow(error)
      await expect(openChain([both(async () => fail())]).chain.decode(placed())).rejects.toBe(error)
    })
  })

  describe('the time limit', () => {
    it('covers all codecs of a message, and aborts their signal', async () => {
      const never = deferred<RawMessage>()
      const signals: AbortSignal[] = []
      const slow = both((_, { signal }) => {
        signals.push(signal)
        return never.promise
      })
      const { chain, runtime } = openChain([slow], 500)
      const outcome = (chain.encode(placed()) as Promise<RawMessage>).catch((error: unknown) => error)
      await runtime.advance(499)
      expect(signals.map(({ aborted }) => aborted)).toEqual([false])
      await runtime.advance(1)
      const error = await outcome
      expect(error).toMatchObject({
        code: 'ACKORD_CODEC_FAILED',
        retryable: true,
        message: expect.stringContaining('within the codecTimeout of 500 ms'),
      })
      expect(signals.map(({ reason }) => reason)).toEqual([error])
    })

    it('begins with the first codec that waits, and is 10 seconds by default', async () => {
      const second = deferred<RawMessage>()
      const { chain, runtime } = openChain([waiting(wrapping('a')), both(() => second.promise)])
      const outcome = (chain.encode(placed()) as Promise<RawMessage>).catch((error: unknown) => error)
      await runtime.advance(9999)
      await runtime.advance(1)
      expect(await outcome).toMatchObject({ message: expect.stringContaining('10000 ms') })
    })

    it('leaves no timer and no listener behind, and ignores what a late codec does', async () => {
      const parent = new AbortController()
      const { chain, runtime } = openChain([
        both(async (message, { signal }) => {
          signal.throwIfAborted()
          return message
        }),
      ])
      await chain.encode(placed(), parent.signal)
      await expect(
        openChain([both(async (_, { signal }) => Promise.reject(signal))]).chain.encode(placed(), parent.signal),
      ).rejects.toThrow()
      expect([runtime.timers, getEventListeners(parent.signal, 'abort').length]).toEqual([0, 0])

      const late = deferred<RawMessage>()
      const slow = openChain([both(() => late.promise)], 10)
      const outcome = (slow.chain.encode(placed(), parent.signal) as Promise<RawMessage>).catch((error: unknown) => error)
      await slow.runtime.advance(10)
      expect(await outcome).toMatchObject({ code: 'ACKORD_CODEC_FAILED' })
      late.reject(new Error('aborted'))
      await settlePromises()
      expect([slow.runtime.timers, getEventListeners(parent.signal, 'abort').length]).toEqual([0, 0])
    })
  })

  it('does not begin the next codec when its time is over', async () => {
    const first = deferred<RawMessage>()
    const begun: RawMessage[] = []
    const second = both((message) => {
      begun.push(message)
      return message
    })
    const { chain, runtime } = openChain([both(() => first.promise), second], 10)
    const message = placed()
    const outcome = (chain.encode(message) as Promise<RawMessage>).catch((error: unknown) => error)
    await runtime.advance(10)
    expect(await outcome).toMatchObject({ code: 'ACKORD_CODEC_FAILED' })
    first.resolve(message)
    await settlePromises()
    expect(begun).toEqual([])
  })

  describe('an abort', () => {
    it('rejects with its reason, and reaches the codecs', async () => {
      const reason = new Error('the shutdown was forced')
      const parent = new AbortController()
      const seen: AbortSignal[] = []
      const { chain } = openChain([
        both((_, { signal }) => {
          seen.push(signal)
          return new Promise(() => {})
        }),
      ])
      const decoding = chain.decode(placed(), parent.signal)
      parent.abort(reason)
      await expect(decoding).rejects.toBe(reason)
      expect(seen.map((signal) => signal.reason)).toEqual([reason])
      await expect(chain.decode(placed(), parent.signal)).rejects.toBe(reason)
    })

    it('does not pass for the error of a codec', async () => {
      const parent = new AbortController()
      const own = new Error('own')
      const { chain } = openChain([both(() => Promise.reject(own))])
      await expect(chain.decode(placed(), parent.signal)).rejects.toMatchObject({ code: 'ACKORD_CODEC_FAILED', cause: own })
    })
  })

  it('leaves no listener behind when a synchronous codec has asked for its signal', () => {
    const parent = new AbortController()
    const seen: AbortSignal[] = []
    const asking = both((message, { signal }) => {
      seen.push(signal)
      return message
    })
    openChain([asking]).chain.encode(placed(), parent.signal)
    expect([seen.length, getEventListeners(parent.signal, 'abort').length]).toEqual([1, 0])
  })

  it('creates no signal for codecs that do not ask for one', async () => {
    const parent = new AbortController()
    const calls: CodecCallOptions[] = []
    const computing = both((message, call) => {
      calls.push(call)
      return message
    })
    const { chain } = openChain([computing])
    chain.encode(placed(), parent.signal)
    expect([calls.length, getEventListeners(parent.signal, 'abort').length]).toEqual([1, 0])
  })

  describe('encodeAll()', () => {
    const messages = (count: number) => Array.from({ length: count }, (_, index) => placed(`${index}`, { id: `o${index}` }))

    it('keeps the order of messages, whichever is encoded first', async () => {
      const steps = Array.from({ length: 3 }, () => deferred<void>())
      const codec = both(async (message) => {
        await steps[Number(textOf(message))]?.promise
        return message.copy(bytesOf(`(${textOf(message)})`))
      })
      const { chain } = openChain([codec])
      const encoding = chain.encodeAll(messages(3))
      for (const step of steps.toReversed()) {
        step.resolve()
        await settlePromises()
      }
      expect((await encoding).map(textOf)).toEqual(['(0)', '(1)', '(2)'])
      expect(await chain.encodeAll([])).toEqual([])
    })

    it('encodes eight messages concurrently, and no more', async () => {
      let running = 0
      let most = 0
      const { chain } = openChain([
        both(async (message) => {
          running += 1
          most = Math.max(most, running)
          await settlePromises()
          running -= 1
          return message
        }),
      ])
      expect(await chain.encodeAll(messages(20))).toHaveLength(20)
      expect(most).toBe(8)
    })

    it('begins no further message when one has failed', async () => {
      const begun: string[] = []
      const blocked = deferred<void>()
      const failure = new Error('the store is full')
      const { chain } = openChain([
        both(async (message) => {
          begun.push(textOf(message))
          if (textOf(message) === '3') throw failure
          await blocked.promise
          return message
        }),
      ])
      await expect(chain.encodeAll(messages(30))).rejects.toMatchObject({ cause: failure })
      blocked.resolve()
      await settlePromises()
      expect(begun).toHaveLength(8)
    })

    it('rejects with the reason of an abort', async () => {
      const parent = new AbortController()
      const reason = new Error('rolled back')
      const { chain } = openChain([both(() => new Promise(() => {}))])
      const encoding = chain.encodeAll(messages(3), parent.signal)
      parent.abort(reason)
      await expect(encoding).rejects.toBe(reason)
      expect(getEventListeners(parent.signal, 'abort')).toEqual([])
    })
  })
})

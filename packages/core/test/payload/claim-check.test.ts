import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { memoryObjects } from '../../../testkit/src/helpers/memory-objects.ts'
import { unmarshal } from '../../src/message/marshal.ts'
import { jsonMarshaler } from '../../src/message/marshaler.ts'
import type { RawMessage } from '../../src/message/message.ts'
import { type ClaimCheckOptions, claimCheck } from '../../src/payload/claim-check.ts'
import type { ObjectStore } from '../../src/payload/object-store.ts'
import { bytesOf, call, placed, received, textOf, withBytes } from '../support/payload-world.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

const large = `"${'x'.repeat(200)}"`
const hour = 3_600_000

/** A store that records its calls. */
function recordedStore() {
  const real = memoryObjects()
  const calls: string[] = []
  const store: ObjectStore = {
    ...real,
    put: async (key, bytes, options) => {
      calls.push(`put ${key}`)
      await real.put(key, bytes, options)
    },
    get: async (key, options) => {
      calls.push(`get ${key} of ${options.maxBytes}`)
      return await real.get(key, options)
    },
  }
  return { store, calls, real }
}

async function openWorld(options: Partial<ClaimCheckOptions> = {}) {
  const { store, calls, real } = recordedStore()
  const runtime = new VirtualRuntime({ start: Date.UTC(2026, 10, 19, 7, 59, 59) })
  const codec = claimCheck({ store, above: 100, runtime, ...options })
  const encode = async (message: RawMessage): Promise<RawMessage> => await codec.encode(message, call)
  const decode = async (message: RawMessage): Promise<RawMessage> => await codec.decode(message, call)
  const stored = async () => {
    const keys: string[] = []
    for await (const { key } of real.list({ olderThan: new Date('9999-01-01') })) keys.push(key)
    return keys
  }
  return { codec, runtime, calls, real, encode, decode, stored, sent: received(await encode(placed(large))) }
}

/** The reference in a message, with changes. */
function referring(message: RawMessage, changes: object): RawMessage {
  return withBytes(message, bytesOf(JSON.stringify({ ...(JSON.parse(textOf(message)) as object), ...changes })))
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const refused = { code: 'ACKORD_PAYLOAD_INVALID', retryable: false }

describe('claimCheck()', () => {
  it('stores the data of a large message, and sends a reference with its size and hash', async () => {
    const { sent, decode, calls } = await openWorld()
    const key = `2026-11-19T07-${sha256('["/shop","o1"]').slice(0, 32)}-${sha256(large)}`
    expect(JSON.parse(textOf(sent))).toEqual({ key, size: 202, sha256: sha256(large), datacontenttype: 'application/json' })
    expect(sent.attributes).toEqual({
      ...placed().attributes,
      datacontenttype: 'application/vnd.ackord.claim-check',
      ackordclaimcheck: '1',
    })
    const read = await decode(sent)
    expect([textOf(read), read.attributes]).toEqual([large, placed().attributes])
    expect(calls).toEqual([`put ${key}`, `get ${key} of 202`])
  })

  it('leaves a message as it is that is not larger than the limit, without a promise', async () => {
    const { codec, calls } = await openWorld()
    const [exact, larger] = [placed('x'.repeat(100)), placed('x'.repeat(101))]
    calls.length = 0
    expect(codec.encode(exact, call)).toBe(exact)
    expect(codec.decode(exact, call)).toBe(exact)
    expect(calls).toEqual([])
    await codec.encode(larger, call)
    expect(calls).toHaveLength(1)
  })

  it('stores messages above 256 kB by default, and all with a limit of 0', async () => {
    const byDefault = await openWorld({ above: undefined })
    const exact = placed('x'.repeat(262_144))
    expect(await byDefault.encode(exact)).toBe(exact)
    expect((await byDefault.encode(placed('x'.repeat(262_145)))).data.byteLength).toBeLessThan(300)
    const all = await openWorld({ above: 0 })
    const sent = await all.encode(placed('x'))
    expect([sent.attributes['ackordclaimcheck'], textOf(await all.decode(received(sent)))]).toEqual(['1', 'x'])
  })

  it('restores a message without a content type', async () => {
    const { encode, decode } = await openWorld()
    const message = placed(large).withAttributes({ datacontenttype: undefined })
    expect((await decode(received(await encode(message)))).attributes).toEqual(message.attributes)
  })

  it('stores the same message once, however often its transaction is retried within an hour', async () => {
    const { encode, stored, sent } = await openWorld()
    const again = await encode(placed(large))
    expect(textOf(again)).toBe(textOf(sent))
    expect(await stored()).toHaveLength(1)
    await encode(placed(`${large} `))
    await encode(placed(large, { id: 'o2' }))
    await encode(placed(large, { source: '/other' }))
    expect(await stored()).toHaveLength(4)
  })

  it('stores another object in the next hour, so that nothing is stored under the key of an object that may be collected', async () => {
    const { runtime, encode, decode, stored, sent } = await openWorld()
    await runtime.advance(1000)
    const again = received(await encode(placed(large)))
    const [first, second] = [sent, again].map((message) => JSON.parse(textOf(message)) as { key: string })
    expect(second).toEqual({ ...first, key: first?.key.replace('T07-', 'T08-') })
    expect(await stored()).toEqual([first?.key, second?.key])
    expect([textOf(await decode(sent)), textOf(await decode(again))]).toEqual([large, large])
    await runtime.advance(hour - 1)
    await encode(placed(large))
    expect(await stored()).toHaveLength(2)
  })

  it('puts a prefix before new keys, and reads every prefix', async () => {
    const { real, runtime } = await openWorld()
    const [one, two] = ['orders/', 'orders-2026'].map((keyPrefix) => claimCheck({ store: real, above: 1, keyPrefix, runtime }))
    const sent = received((await one?.encode(placed(large), call)) as RawMessage)
    expect(JSON.parse(textOf(sent)).key).toMatch(/^orders\/2026-11-19T07-[0-9a-f]{32}-[0-9a-f]{64}$/)
    expect(textOf((await two?.decode(sent, call)) as RawMessage)).toBe(large)
  })

  it('is not mistaken for the data by a reader without it', async () => {
    const { sent } = await openWorld()
    expect(() => unmarshal(sent, jsonMarshaler)).toThrow(expect.objectContaining({ code: 'ACKORD_UNMARSHAL_FAILED', retryable: false }))
  })

  describe('a reference that was changed', () => {
    it.each(['id', 'source'])('is rejected in another message, and the store is not asked: %s', async (name) => {
      const { sent, decode, calls } = await openWorld()
      calls.length = 0
      await expect(decode(received(sent, { [name]: 'another' }))).rejects.toMatchObject(refused)
      await expect(decode(received(sent, { [name]: undefined }))).rejects.toMatchObject(refused)
      expect(calls).toEqual([])
    })

    it('is rejected with the key of another message', async () => {
      const { sent, encode, decode, calls } = await openWorld()
      const other = JSON.parse(textOf(await encode(placed(`${large}!`, { id: 'o2' })))) as object
      calls.length = 0
      await expect(decode(referring(sent, other))).rejects.toMatchObject(refused)
      expect(calls).toEqual([])
    })

    const key = `${'0'.repeat(32)}-${'0'.repeat(64)}`
    it.each([
      ['no JSON', bytesOf('{')],
      ['no UTF-8', Uint8Array.from([0xff])],
      ['no object', bytesOf('null')],
      ['an array', bytesOf('[]')],
      ['no data', new Uint8Array()],
    ])('is rejected: %s', async (_, data) => {
      const { sent, decode } = await openWorld()
      await expect(decode(withBytes(sent, data))).rejects.toMatchObject(refused)
    })

    it.each([
      { key },
      { key: '../../etc/passwd' },
      { key: undefined },
      { key: 7 },
      { key: `../${key}` },
      { size: 201 },
      { size: 203 },
      { size: -1 },
      { size: 1.5 },
      { size: '202' },
      { size: undefined },
      { size: Number.MAX_SAFE_INTEGER },
      { sha256: '0'.repeat(64) },
      { sha256: sha256(large).toUpperCase() },
      { sha256: 'x' },
      { sha256: undefined },
      { datacontenttype: 7 },
      { padding: 'x'.repeat(4096) },
    ])('is rejected: %j', async (changes) => {
      const { sent, decode, calls } = await openWorld()
      calls.length = 0
      await expect(decode(referring(sent, changes))).rejects.toMatchObject(refused)
      // Only a size that may be right needs an answer of the store.
      const isAsked = 'size' in changes && (changes.size === 201 || changes.size === 203)
      expect(calls).toHaveLength(isAsked ? 1 : 0)
    })

    it('is rejected with the key of another message of the same hour, of which it has the data', async () => {
      const { sent, encode, decode, calls } = await openWorld()
      const others = [await encode(placed(large, { id: 'o2' })), await encode(placed(large, { source: '/other' }))]
      calls.length = 0
      for (const other of others) {
        const { key: foreign } = JSON.parse(textOf(other)) as { key: string }
        await expect(decode(referring(sent, { key: foreign }))).rejects.toMatchObject(refused)
      }
      expect(calls).toEqual([])
    })

    it('is rejected with a prefix that leads out of the store', async () => {
      const { sent, decode, calls } = await openWorld()
      const { key: own } = JSON.parse(textOf(sent)) as { key: string }
      calls.length = 0
      for (const prefix of ['../', '/', 'a/../', 'a//', '.a/', 'a b/', 'x/'.repeat(300)]) {
        await expect(decode(referring(sent, { key: `${prefix}${own}` }))).rejects.toMatchObject(refused)
      }
      expect(calls).toEqual([])
    })

    it('is rejected if its version is unknown', async () => {
      const { sent, decode } = await openWorld()
      await expect(decode(received(sent, { ackordclaimcheck: '2' }))).rejects.toMatchObject(refused)
      await expect(decode(received(sent, { ackordclaimcheck: '' }))).rejects.toMatchObject(refused)
      // Some brokers carry numbers as numbers.
      expect(textOf(await decode(received(sent, { ackordclaimcheck: 1 })))).toBe(large)
    })
  })

  describe('an object', () => {
    it('that is missing rejects the message', async () => {
      const { sent, decode, real, stored } = await openWorld()
      await real.delete(await stored())
      await expect(decode(sent)).rejects.toMatchObject({ code: 'ACKORD_PAYLOAD_MISSING', retryable: false })
    })

    it.each([
      ['of the same size', large.replace('x', 'y')],
      ['shorter', large.slice(1)],
      ['empty', ''],
      ['longer', `${large} `],
    ])('that was replaced rejects the message: %s', async (_, text) => {
      const { sent, decode, real, stored } = await openWorld()
      for (const key of await stored()) await real.put(key, bytesOf(text), call)
      await expect(decode(sent)).rejects.toMatchObject(refused)
    })

    it('that was replaced rejects the message, although the store ignores the limit', async () => {
      const { sent, real, stored } = await openWorld()
      for (const key of await stored()) await real.put(key, bytesOf(`${large} `), call)
      const careless = claimCheck({ store: { ...real, get: (key, { signal }) => real.get(key, { signal }) }, above: 100 })
      await expect(careless.decode(sent, call)).rejects.toMatchObject(refused)
    })

    it('is not stored or fetched above the maximum', async () => {
      const exact = await openWorld({ maxBytes: 202 })
      expect(textOf(await exact.decode(exact.sent))).toBe(large)
      exact.calls.length = 0
      const tooLarge = placed(`${large} `)
      await expect((async () => await exact.encode(tooLarge))()).rejects.toMatchObject({ code: 'ACKORD_INVALID_OUTPUT', retryable: false })
      const sent = received((await claimCheck({ store: exact.real, above: 100 }).encode(tooLarge, call)) as RawMessage)
      await expect(exact.decode(sent)).rejects.toMatchObject({ ...refused, message: expect.stringContaining('maxBytes is 202') })
      expect(exact.calls).toEqual([])
    })
  })

  it('passes errors of the store on', async () => {
    const outage = new Error('connection refused')
    const { sent, real } = await openWorld()
    const broken = claimCheck({ store: { ...real, put: () => Promise.reject(outage), get: () => Promise.reject(outage) }, above: 100 })
    await expect(broken.encode(placed(large), call)).rejects.toBe(outage)
    await expect(broken.decode(sent, call)).rejects.toBe(outage)
  })

  it('passes the signal of the call on', async () => {
    const { sent, codec } = await openWorld()
    const reason = new Error('too late')
    const aborted = { signal: AbortSignal.abort(reason) }
    await expect(codec.encode(placed(large), aborted)).rejects.toBe(reason)
    await expect(codec.decode(sent, aborted)).rejects.toBe(reason)
  })

  it('stores nothing for a message that readers would reject', async () => {
    const { encode, calls, sent } = await openWorld()
    calls.length = 0
    const messages = [
      sent,
      placed(large, { id: '' }),
      placed(large).withAttributes({ source: undefined }),
      placed(large, { datacontenttype: 'x'.repeat(4000) }),
    ]
    for (const message of messages)
      await expect((async () => await encode(message))()).rejects.toMatchObject({ code: 'ACKORD_INVALID_ATTRIBUTES' })
    expect(calls).toEqual([])
  })

  const store = memoryObjects()
  it.each([
    ['claimCheck()', { store, over: 1 }],
    ['store.put', {}],
    ['store.get', { store: { put: store.put } }],
    ['above', { store, above: -1 }],
    ['above', { store, above: Infinity }],
    ['maxBytes', { store, maxBytes: 0 }],
    ['maxBytes', { store, above: 1000, maxBytes: 999 }],
    ['keyPrefix', { store, keyPrefix: '../' }],
    ['keyPrefix', { store, keyPrefix: '/' }],
    ['keyPrefix', { store, keyPrefix: 'a b/' }],
    ['keyPrefix', { store, keyPrefix: 'x'.repeat(90) }],
    ['keyPrefix', { store, keyPrefix: 'x'.repeat(201) }],
  ])('rejects an invalid option: %s', (option, options) => {
    expect(() => claimCheck(options as never)).toThrow(expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', option }))
  })
})

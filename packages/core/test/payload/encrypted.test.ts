import { randomBytes } from 'node:crypto'
import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { unmarshal } from '../../src/message/marshal.ts'
import { jsonMarshaler } from '../../src/message/marshaler.ts'
import { Message, type RawMessage } from '../../src/message/message.ts'
import { encrypted } from '../../src/payload/encrypted.ts'
import { type KeyAnswer, type KeyRing, staticKeys } from '../../src/payload/key-ring.ts'
import { seal } from '../../src/payload/xaes-gcm.ts'
import { bytesOf, call, placed, received, textOf, withBytes } from '../support/payload-world.ts'

const key = randomBytes(32)
const keys = staticKeys({ current: 'k1', keys: { k1: key } })
const codec = encrypted({ keys })

/** What a call returns or throws, and what its promise becomes. */
async function outcome(run: () => unknown): Promise<unknown> {
  try {
    return await run()
  } catch (error) {
    return error
  }
}

const encode = async (message: RawMessage, by = codec): Promise<RawMessage> => await by.encode(message, call)
const decode = (message: RawMessage, by = codec) => outcome(() => by.decode(message, call))
const refused = expect.objectContaining({ code: 'ACKORD_PAYLOAD_INVALID', retryable: false })

describe('encrypted()', () => {
  it.each([0, 11, 100_000])('decrypts what it has encrypted, with the content type and all attributes: %i bytes', async (length) => {
    const text = 'x'.repeat(length)
    const message = placed(text, { subject: 'anna', traceparent: '00-1-2-01', partitionkey: 'o1' })
    const sent = await encode(message)
    expect(sent.attributes).toEqual({
      ...message.attributes,
      datacontenttype: 'application/vnd.ackord.encrypted',
      ackordencrypted: '1',
    })
    const read = (await decode(received(sent))) as RawMessage
    expect([textOf(read), read.attributes]).toEqual([text, message.attributes])
  })

  it.each([
    ['none', undefined],
    ['one with a parameter', 'text/plain; charset=utf-8'],
    ['one that begins with a byte order mark', '\ufeffx'],
    ['a long one', 'x'.repeat(65_535)],
  ])('restores the content type: %s', async (_, datacontenttype) => {
    const message = placed('data').withAttributes({ datacontenttype })
    const read = (await decode(received(await encode(message)))) as RawMessage
    expect(read.attributes).toEqual(message.attributes)
  })

  it('rejects a content type that has no room', async () => {
    const message = placed('data', { datacontenttype: 'x'.repeat(65_536) })
    expect(await outcome(() => codec.encode(message, call))).toMatchObject({ code: 'ACKORD_INVALID_ATTRIBUTES' })
  })

  it('encrypts arbitrary bytes, also as a view of a larger array', async () => {
    const bytes = randomBytes(1000)
    const read = (await decode(received(await encode(withBytes(placed(), bytes.subarray(100, 900)))))) as RawMessage
    expect(Buffer.from(read.data)).toEqual(bytes.subarray(100, 900))
  })

  it('has the documented format', async () => {
    const { data } = await encode(placed('secret'))
    const plain = 2 + 'application/json'.length + 'secret'.length
    expect(Buffer.from(data.subarray(0, 4))).toEqual(Buffer.from([1, 2, ...bytesOf('k1')]))
    expect(data.byteLength).toBe(4 + 24 + plain + 16)
  })

  it('shows neither the data nor its content type', async () => {
    const sent = await encode(placed('a secret text', { datacontenttype: 'application/x-salary' }))
    expect(Buffer.from(sent.data).includes('secret')).toBe(false)
    expect(Buffer.from(sent.data).includes('salary')).toBe(false)
    expect(JSON.stringify(sent.attributes)).not.toContain('salary')
  })

  it('uses another nonce for every message', async () => {
    const message = placed()
    const nonces = new Set<string>()
    for (let count = 0; count < 1000; count += 1) nonces.add(Buffer.from((await encode(message)).data.subarray(4, 28)).toString('hex'))
    expect(nonces.size).toBe(1000)
  })

  it('returns no promise if the key is there', () => {
    const sent = codec.encode(placed(), call)
    expect(sent).toBeInstanceOf(Message)
    expect(codec.decode(sent as RawMessage, call)).toBeInstanceOf(Message)
  })

  describe('a message that was changed', () => {
    it.each(['id', 'source', 'type'])('is rejected: %s', async (name) => {
      const sent = await encode(placed())
      expect(await decode(received(sent, { [name]: 'another' }))).toEqual(refused)
      expect(await decode(received(sent, { [name]: undefined }))).toEqual(refused)
    })

    it('is rejected with another key id, although it stands for the same key', async () => {
      const own = encrypted({ keys: staticKeys({ current: 'k1', keys: { k1: key, k2: key } }) })
      const { data, attributes } = await encode(placed(), own)
      const changed = data.slice()
      changed.set(bytesOf('k2'), 2)
      expect(await decode(new Message(changed, attributes), own)).toEqual(refused)
    })

    it('is rejected for every byte, and for every length', async () => {
      const sent = await encode(placed('{}'))
      const accepted: unknown[] = []
      const attempt = async (data: Uint8Array) => {
        const result = await decode(withBytes(sent, data))
        if (!(result instanceof Error) || !('retryable' in result) || result.retryable !== false) accepted.push(result)
      }
      for (const index of sent.data.keys()) await attempt(sent.data.map((byte, at) => (at === index ? byte ^ 1 : byte)))
      for (let length = 0; length < sent.data.byteLength; length += 1) await attempt(sent.data.subarray(0, length))
      await attempt(Buffer.concat([sent.data, Buffer.alloc(1)]))
      expect(accepted).toEqual([])
    })

    it('is rejected if its data was copied from another message', async () => {
      const [one, two] = [await encode(placed('one')), await encode(placed('two', { id: 'o2' }))]
      expect(await decode(withBytes(two, one.data))).toEqual(refused)
    })

    it('cannot shift characters between what is authenticated', async () => {
      const sent = await encode(placed('data', { id: 'a","b', source: 'c' }))
      expect(await decode(received(sent, { id: 'a', source: 'b","c' }))).toEqual(refused)
      const spaced = await encode(placed('data', { id: 'ab', source: 'c' }))
      expect(await decode(received(spaced, { id: 'a', source: 'bc' }))).toEqual(refused)
    })

    it('is decrypted if only attributes changed that a broker, a trace or a dead letter may change', async () => {
      const changed = {
        subject: 'x',
        time: '2026-11-18T12:00:00Z',
        traceparent: '00-9-9-01',
        datacontenttype: 'text/plain',
        deadlettererror: 'E',
      }
      const read = (await decode(received(await encode(placed('data')), changed))) as RawMessage
      expect([textOf(read), read.dataContentType]).toEqual(['data', 'application/json'])
    })
  })

  describe('a message of a forger', () => {
    it.each([
      ['no data', new Uint8Array()],
      ['another version', Uint8Array.from([2, 1, 65, ...new Uint8Array(60)])],
      ['no key id', Uint8Array.from([1, 0, ...new Uint8Array(60)])],
      ['a key id that is not UTF-8', Uint8Array.from([1, 1, 0xff, ...new Uint8Array(60)])],
      ['a key id that is longer than the data', Uint8Array.from([1, 255, ...new Uint8Array(60)])],
      ['no tag', Uint8Array.from([1, 2, ...bytesOf('k1'), ...new Uint8Array(39)])],
      ['a tag of zeros', Uint8Array.from([1, 2, ...bytesOf('k1'), ...new Uint8Array(40)])],
      ['JSON', bytesOf('{"total":1000000}')],
    ])('is rejected: %s', async (_, data) => {
      expect(await decode(withBytes(placed('', { ackordencrypted: '1' }), data))).toEqual(refused)
    })

    it('is rejected if it was sealed with another key of the same id', async () => {
      const forger = encrypted({ keys: staticKeys({ current: 'k1', keys: { k1: randomBytes(32) } }) })
      expect(await decode(received(await encode(placed(), forger)))).toEqual(refused)
    })

    it('does not become plain text by the loss of its mark', async () => {
      const sent = received(await encode(placed()), { ackordencrypted: undefined })
      const read = (await decode(sent)) as RawMessage
      expect(() => unmarshal(read, jsonMarshaler)).toThrow(expect.objectContaining({ code: 'ACKORD_UNMARSHAL_FAILED', retryable: false }))
      expect(await decode(sent, encrypted({ keys, plainText: 'reject' }))).toEqual(refused)
    })
  })

  it.each([
    ['no text', new Uint8Array()],
    ['half a length', Uint8Array.from([0])],
    ['a content type that is incomplete', Uint8Array.from([0, 3, 65, 66])],
  ])('rejects a message that somebody with the key has sealed wrongly: %s', async (_, plain) => {
    const nonce = randomBytes(24)
    const associated = bytesOf(JSON.stringify(['ackord.encrypted', 1, 'k1', 'o1', '/shop', 'order.placed']))
    const text = new Uint8Array(plain.byteLength + 16)
    seal(key, nonce, associated, [plain], text)
    const data = Buffer.concat([Uint8Array.from([1, 2]), bytesOf('k1'), nonce, text])
    const error = await decode(withBytes(placed('', { ackordencrypted: '1' }), data))
    expect(error).toMatchObject({ code: 'ACKORD_PAYLOAD_INVALID', message: expect.stringContaining('its content type is incomplete') })
  })

  describe('a plain message', () => {
    it('is accepted by default, so that encryption can be introduced', () => {
      const message = placed()
      expect(codec.decode(message, call)).toBe(message)
    })

    it("is rejected with plainText: 'reject'", async () => {
      const strict = encrypted({ keys, plainText: 'reject' })
      expect(await decode(placed(), strict)).toEqual(refused)
      expect(textOf((await decode(received(await encode(placed('data'), strict)), strict)) as RawMessage)).toBe('data')
    })
  })

  it('does not encrypt a message that has its mark, or that readers could not decrypt', async () => {
    const sent = await encode(placed())
    for (const message of [
      sent,
      ...['id', 'source', 'type'].flatMap((name) => [placed('', { [name]: '' }), placed().withAttributes({ [name]: undefined })]),
    ]) {
      expect(await outcome(() => codec.encode(message, call))).toMatchObject({ code: 'ACKORD_INVALID_ATTRIBUTES' })
    }
  })

  describe('keys', () => {
    it('are rotated: messages of old keys are read, and new ones have the new key', async () => {
      const [old, next] = [randomBytes(32), randomBytes(32)]
      const before = encrypted({ keys: staticKeys({ current: 'old', keys: { old } }) })
      const during = encrypted({ keys: staticKeys({ current: 'old', keys: { old, next } }) })
      const after = encrypted({ keys: staticKeys({ current: 'next', keys: { old, next } }) })
      const ended = encrypted({ keys: staticKeys({ current: 'next', keys: { next } }) })
      const [first, second] = [received(await encode(placed('first'), before)), received(await encode(placed('second'), after))]
      for (const reader of [during, after]) {
        expect([await decode(first, reader), await decode(second, reader)].map((read) => textOf(read as RawMessage))).toEqual([
          'first',
          'second',
        ])
      }
      expect(await decode(second, before)).toMatchObject({ code: 'ACKORD_KEY_UNKNOWN', retryable: false })
      expect(await decode(first, ended)).toMatchObject({ code: 'ACKORD_KEY_UNKNOWN', retryable: false })
    })

    it('may be one per person, chosen by the message, with the current one for the rest', async () => {
      const ring = staticKeys({ current: 'shared', keys: { shared: randomBytes(32), 'person-anna': randomBytes(32) } })
      const personal = encrypted({ keys: ring, keyFor: ({ subject }) => (subject === undefined ? undefined : `person-${subject}`) })
      const nameOf = ({ data }: RawMessage) => new TextDecoder().decode(data.subarray(2, 2 + (data[1] ?? 0)))
      const sent = [await encode(placed('', { subject: 'anna' }), personal), await encode(placed(), personal)]
      expect(sent.map(nameOf)).toEqual(['person-anna', 'shared'])
      const erased = encrypted({ keys: staticKeys({ current: 'shared', keys: { shared: randomBytes(32) }, forgotten: ['person-anna'] }) })
      expect(await decode(received(sent[0] as RawMessage), erased)).toMatchObject({ code: 'ACKORD_KEY_FORGOTTEN', retryable: false })
      expect(await outcome(() => erased.encode(placed(), { ...call }))).toBeInstanceOf(Message)
    })

    it.each([
      ['a byte order mark', '\ufeffkey'],
      ['any characters', 'cl\u00e9 "\u{1f511}"\n'],
      ['255 bytes', 'x'.repeat(255)],
      ['252 bytes in 63 characters', '\u{1f511}'.repeat(63)],
      ['the name of a member of objects', '__proto__'],
    ])('may have an id with %s', async (_, id) => {
      const own = encrypted({ keys: { current: id, get: (wanted) => (wanted === id ? key : undefined) } })
      expect(textOf((await decode(received(await encode(placed('data'), own)), own)) as RawMessage)).toBe('data')
    })

    it.each([
      ['no characters', ''],
      ['256 bytes', 'x'.repeat(256)],
      ['256 bytes in 64 characters', '\u{1f511}'.repeat(64)],
      ['half a character', '\ud800'],
      ['a number in place of a string', 7],
    ])('cannot have an id with %s', async (_, id) => {
      const own = encrypted({ keys: { current: id as string, get: () => key } })
      expect(await outcome(() => own.encode(placed(), call))).toMatchObject({ code: 'ACKORD_INVALID_OPTION', option: 'A key id' })
    })

    it('may come later, and may be created for a new message only', async () => {
      const asked: string[] = []
      const ring: KeyRing = {
        current: 'k1',
        async get(id) {
          asked.push(`get ${id}`)
          return key
        },
        async getOrCreate(id) {
          asked.push(`getOrCreate ${id}`)
          return key
        },
      }
      const own = encrypted({ keys: ring })
      expect(textOf((await decode(received(await encode(placed('data'), own)), own)) as RawMessage)).toBe('data')
      expect(asked).toEqual(['getOrCreate k1', 'get k1'])
    })

    it('receive the signal of the call', async () => {
      const seen: unknown[] = []
      const get: KeyRing['get'] = (_, options) => {
        seen.push(options.signal)
        return key
      }
      const own = encrypted({ keys: { current: 'k1', get } })
      await decode(received(await encode(placed(), own)), own)
      expect(seen).toEqual([call.signal, call.signal])
    })

    it('that cannot be found out are an error of the ring, which is passed on', async () => {
      const outage = new Error('connection refused')
      const own = encrypted({ keys: { current: 'k1', get: () => Promise.reject(outage) } })
      expect(await outcome(() => own.encode(placed(), call))).toBe(outage)
      expect(await decode(received(await encode(placed())), own)).toBe(outage)
    })

    it.each([
      ['a short key', new Uint8Array(16), '16 bytes'],
      ['a string', 'k'.repeat(32), 'a string'],
      ['null', null, 'null'],
      ['an array', [1, 2], 'an array'],
    ])('that are none are an error of the ring, not of the message: %s', async (_, answer, shown) => {
      for (const ring of [answer, Promise.resolve(answer)]) {
        const own = encrypted({ keys: { current: 'k1', get: () => ring as Uint8Array } })
        const expected = { code: 'ACKORD_CODEC_FAILED', retryable: true, message: expect.stringContaining(`it returned ${shown}`) }
        expect(await outcome(() => own.encode(placed(), call))).toMatchObject(expected)
        expect(await decode(received(await encode(placed())), own)).toMatchObject(expected)
      }
    })

    it('that are unknown or forgotten keep a new message from being sent', async () => {
      const unknown = encrypted({ keys, keyFor: () => 'k2' })
      expect(await outcome(() => unknown.encode(placed(), call))).toMatchObject({ code: 'ACKORD_KEY_UNKNOWN', retryable: true })
      const forgotten = encrypted({ keys: { current: 'k1', get: async (): Promise<KeyAnswer> => 'forgotten' } })
      expect(await outcome(() => forgotten.encode(placed(), call))).toMatchObject({ code: 'ACKORD_KEY_FORGOTTEN', retryable: false })
    })
  })

  it('shows neither keys nor data in its errors', async () => {
    const secretKey = Buffer.from('key material of 32 bytes, secret')
    const own = encrypted({ keys: staticKeys({ current: 'k1', keys: { k1: secretKey } }) })
    const sent = await encode(placed('a secret text'), own)
    const long = `${secretKey.toString()}, and more`
    const errors = [
      await decode(received(sent, { id: 'o2' }), own),
      await decode(received(sent)),
      await decode(withBytes(sent, sent.data.subarray(0, 50)), own),
      await decode(placed('a secret text'), encrypted({ keys, plainText: 'reject' })),
      await outcome(() => own.encode(placed('a secret text', { ackordencrypted: '1' }), call)),
      await outcome(() => staticKeys({ current: 'k1', keys: { k1: long as unknown as Uint8Array } })),
      await outcome(() => staticKeys({ current: 'k1', keys: { k1: Buffer.from(long) } })),
      await outcome(() => encrypted({ keys: { current: 'k1', get: () => Buffer.from(long) } }).encode(placed('a secret text'), call)),
    ]
    for (const error of errors) {
      expect(error).toBeInstanceOf(Error)
      for (const secret of ['secret', secretKey.toString('hex'), secretKey.toString('hex', 0, 8)])
        expect(inspect(error, { depth: 9 })).not.toContain(secret)
    }
    expect(inspect(own, { depth: 9 })).not.toContain(secretKey.toString('hex', 0, 8))
  })

  it.each([
    ['encrypted()', { keys, key }],
    ['keys', {}],
    ['keys', { keys: { current: 'k1' } }],
    ['keys', { keys: { current: 'k1', get: () => key, getOrCreate: true } }],
    ['keyFor', { keys, keyFor: 'subject' }],
    ['plainText', { keys, plainText: 'maybe' }],
  ])('rejects an invalid option: %s', (option, options) => {
    expect(() => encrypted(options as never)).toThrow(expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', option }))
  })
})

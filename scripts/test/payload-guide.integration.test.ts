import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Message, type RawMessage } from '../../packages/core/src/index.ts'
import {
  decodePayload,
  encodePayload,
  encrypted,
  type KeyRing,
  type ObjectStore,
  type PayloadCodec,
  staticKeys,
} from '../../packages/core/src/payload.ts'
import { openSchema } from '../../packages/sql/test/support/own-schema.ts'
import { testKeyRing, testObjectStore, testPayloadCodec } from '../../packages/testkit/src/suites.ts'
import { ownName } from '../test-run.mjs'
import { root, typescriptBlocks } from './docs-blocks.ts'

const document = 'docs/guides/payloads.md'
const folder = `${root}.cache/payload-guide-${ownName()}`

interface PersonKeysModule {
  readonly personKeysTable: string
  personKeys(pool: pg.Pool): KeyRing
  forgetPerson(pool: pg.Pool, id: string): Promise<void>
}

interface TableObjectsModule {
  readonly objectsTable: string
  tableObjects(pool: pg.Pool): ObjectStore
}

/** Imports a program of the guide. */
async function moduleOf<T>(title: string): Promise<T> {
  const example = typescriptBlocks(document).find((block) => block.title === title)
  writeFileSync(`${folder}/${title}`, example?.code ?? '')
  return await import(`${folder}/${title}`)
}

function placed(text: string, subject: string | undefined): RawMessage {
  const attributes = { id: 'o1', source: '/shop', type: 'order.placed', specversion: '1.0', datacontenttype: 'text/plain' }
  return new Message(new TextEncoder().encode(text), subject === undefined ? attributes : { ...attributes, subject })
}

const textOf = ({ data }: RawMessage) => new TextDecoder().decode(data)

beforeAll(() => void mkdirSync(folder, { recursive: true }))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function openRing() {
  const schema = await openSchema()
  const pool = schema.createPool({ max: 5 })
  const { personKeysTable, personKeys, forgetPerson } = await moduleOf<PersonKeysModule>('person-keys.ts')
  await pool.query(personKeysTable)
  const codecs = () => [encrypted({ keys: personKeys(pool), keyFor: ({ subject }) => subject, plainText: 'reject' })]
  return {
    ring: personKeys(pool),
    another: async () => personKeys(pool),
    codecs,
    forget: (id: string) => forgetPerson(pool, id),
    rows: async () => (await pool.query('SELECT id, key IS NULL AS forgotten FROM person_keys ORDER BY id')).rows,
    async [Symbol.asyncDispose]() {
      await pool.query('DROP TABLE person_keys')
      await pool.end()
      await schema[Symbol.asyncDispose]()
    },
  }
}

async function openObjects() {
  const schema = await openSchema()
  const pool = schema.createPool({ max: 5 })
  const { objectsTable, tableObjects } = await moduleOf<TableObjectsModule>('table-objects.ts')
  await pool.query(objectsTable)
  return {
    store: tableObjects(pool),
    another: async () => tableObjects(pool),
    async [Symbol.asyncDispose]() {
      await pool.query('DROP TABLE objects')
      await pool.end()
      await schema[Symbol.asyncDispose]()
    },
  }
}

testObjectStore({ describe, it }, { name: 'of the guide', open: openObjects, features: { pageSize: 1 } })

testKeyRing({ describe, it }, { name: 'of the guide', open: openRing, features: { creates: true, forgets: true } })

testPayloadCodec(
  { describe, it },
  {
    name: 'of the guide',
    features: { bound: [], authenticated: false },
    async open() {
      const { compressed } = await moduleOf<{ compressed: PayloadCodec }>('compressed.ts')
      return { codec: compressed, another: async () => compressed, [Symbol.asyncDispose]: async () => {} }
    },
  },
)

describe('the key ring of the guide "Large payloads and encryption"', () => {
  it('erases the data of a person, and of no other one', async () => {
    await using ring = await openRing()
    const [writer, reader] = [ring.codecs(), ring.codecs()]
    const sent: RawMessage[] = []
    for (const subject of ['p-1', 'p-2', undefined]) sent.push(await encodePayload(placed('data', subject), writer))
    const read = () => Promise.allSettled(sent.map(async (message) => textOf(await decodePayload(message, reader))))
    expect((await read()).map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled'])
    await ring.forget('p-1')
    expect(await read()).toEqual([
      { status: 'rejected', reason: expect.objectContaining({ code: 'ACKORD_KEY_FORGOTTEN', retryable: false }) },
      { status: 'fulfilled', value: 'data' },
      { status: 'fulfilled', value: 'data' },
    ])
    expect(await ring.rows()).toEqual([
      { id: 'p-1', forgotten: true },
      { id: 'p-2', forgotten: false },
      { id: 'shared', forgotten: false },
    ])
  })

  it('makes no new key for a person that was forgotten, with or without an earlier message', async () => {
    await using ring = await openRing()
    await encodePayload(placed('data', 'p-1'), ring.codecs())
    for (const subject of ['p-1', 'p-2']) {
      await ring.forget(subject)
      await ring.forget(subject)
      await expect(encodePayload(placed('data', subject), ring.codecs())).rejects.toMatchObject({ code: 'ACKORD_KEY_FORGOTTEN' })
    }
    expect((await ring.rows()).map(({ forgotten }) => forgotten)).toEqual([true, true])
  })

  it('makes one key for a person, however many processes need it first', async () => {
    await using ring = await openRing()
    const sent = await Promise.all(Array.from({ length: 20 }, () => encodePayload(placed('data', 'p-1'), ring.codecs())))
    expect(await ring.rows()).toHaveLength(1)
    for (const message of sent) expect(textOf(await decodePayload(message, ring.codecs()))).toBe('data')
  })

  it('makes no key for a message that it reads', async () => {
    await using ring = await openRing()
    const elsewhere = [encrypted({ keys: staticKeys({ current: 'p-9', keys: { 'p-9': new Uint8Array(32) } }) })]
    const sent = await encodePayload(placed('data', 'p-9'), elsewhere)
    await expect(decodePayload(sent, ring.codecs())).rejects.toMatchObject({ code: 'ACKORD_KEY_UNKNOWN', retryable: false })
    expect(await ring.rows()).toEqual([])
  })
})

describe('the codec of the guide that compresses', () => {
  it('restores what it has compressed, and leaves other messages as they are', async () => {
    const { compressed } = await moduleOf<{ compressed: PayloadCodec }>('compressed.ts')
    const codecs = [compressed, encrypted({ keys: staticKeys({ current: 'k1', keys: { k1: new Uint8Array(32) } }) })]
    const message = placed('x'.repeat(10_000), undefined)
    const sent = await encodePayload(message, codecs)
    expect(sent.data.byteLength).toBeLessThan(200)
    const read = await decodePayload(new Message(sent.data, sent.attributes), codecs)
    expect([textOf(read), read.attributes]).toEqual([textOf(message), message.attributes])
    expect(await decodePayload(message, [compressed])).toBe(message)
  })

  it('does not expand a message without limit', async () => {
    const { compressed } = await moduleOf<{ compressed: PayloadCodec }>('compressed.ts')
    const huge = new Message(new Uint8Array(60_000_000), placed('', undefined).attributes)
    const sent = await encodePayload(huge, [compressed])
    expect(sent.data.byteLength).toBeLessThan(100_000)
    await expect(decodePayload(sent, [compressed])).rejects.toMatchObject({ code: 'ACKORD_CODEC_FAILED' })
  })
})

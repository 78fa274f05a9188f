import assert from 'node:assert/strict'
import type { Attributes, AttributeValue } from '@ackord/core'
import { claim, claimOne, commit, idsOf, type OutboxScenario, record } from './outbox-world.ts'

const bytes: Readonly<Record<string, Uint8Array>> = {
  empty: new Uint8Array(),
  zero: new Uint8Array(1),
  binary: Uint8Array.from({ length: 256 }, (_, index) => index),
  'not UTF-8': Uint8Array.of(0xff, 0xfe, 0xc0, 0x80, 0xed, 0xa0, 0x80),
  unicode: new TextEncoder().encode('größe 訂單 🚚 \u0000 e\u0301'),
  'JSON as it was written': new TextEncoder().encode('{ "b": 1,\t"a": 1.0, "a": 1e400,\r\n "nul": "\\u0000" }'),
  'a megabyte': Uint8Array.from({ length: 1_048_576 }, (_, index) => (index * 31 + (index >> 8)) & 0xff),
}

const exotic: Attributes = {
  subject: '',
  partitionkey: 'customer 7',
  datacontenttype: 'application/json; charset=utf-8',
  time: '2026-01-02T03:04:05.678901+02:00',
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  quotes: `it's "quoted" \\ $1 ? :name {} %s \t\n`,
  unicode: 'größe 訂單 🚚 e\u0301',
  looksLikeNumber: '0012',
  looksLikeJson: '{"a":null}',
  whole: 9_007_199_254_740_991,
  negative: -17,
  fraction: 0.1,
  tiny: 1e-7,
  zero: 0,
  yes: true,
  no: false,
}

const destinations = [
  'orders',
  'ORDERS',
  'orders ',
  'a.b/c:d*#',
  `it's "odd" \\ % _`,
  'größe-訂單-🚚',
  'e\u0301',
  '\u00e9',
  'x'.repeat(200),
]

export const contentScenarios: readonly OutboxScenario[] = [
  {
    name: 'keeps bytes unchanged: empty, binary, Unicode, a megabyte',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      for (const [name, data] of Object.entries(bytes)) await commit(world, record(name, { data }))
      const claimed = await claim(world.store)
      assert.deepEqual(idsOf(claimed), Object.keys(bytes))
      for (const { message } of claimed) {
        const given = bytes[message.id ?? ''] ?? new Uint8Array()
        assert.ok(message.data instanceof Uint8Array)
        assert.ok(Buffer.compare(message.data, given) === 0, `the bytes '${message.id}' were changed`)
      }
    },
  },
  {
    name: 'keeps attributes unchanged, with their types',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, record('e1', { attributes: exotic }), record('e2'))
      const [full, plain] = await claim(world.store)
      const own = { id: 'e1', type: 'order.placed', source: '/orders', specversion: '1.0' }
      assert.deepEqual({ ...full?.message.attributes }, { ...own, ...exotic })
      assert.deepEqual({ ...plain?.message.attributes }, { ...own, id: 'e2' })
    },
  },
  {
    name: 'keeps dates and bytes in attributes as such or as CloudEvents writes them',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const given: Record<string, Date | Uint8Array> = { deadline: new Date(1_767_225_600_123), digest: Uint8Array.of(0, 255, 128) }
      await commit(world, record('e1', { attributes: given }))
      const { attributes } = (await claimOne(world.store)).message
      for (const [name, value] of Object.entries(given)) assert.equal(textOf(attributes[name]), textOf(value))
    },
  },
  {
    name: 'keeps 200 attributes',
    async run(open) {
      await using world = await open({ retain: false })
      const many = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`extension${index}`, `value ${index}`]))
      await commit(world, record('e1', { attributes: many }))
      const { attributes } = (await claimOne(world.store)).message
      for (const name in many) assert.equal(attributes[name], many[name])
      assert.equal(Object.keys(attributes).length, 204)
    },
  },
  {
    name: 'keeps destinations unchanged, and distinguishes them byte by byte',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, ...destinations.map((destination, index) => record(`e${index}`, { destination })))
      for (const [index, destination] of destinations.entries()) {
        const claimed = await claim(world.store, { destinations: [destination] })
        assert.deepEqual(
          claimed.map((one) => [one.destination, one.message.id]),
          [[destination, `e${index}`]],
        )
      }
      const stats = await world.store.stats()
      assert.deepEqual(stats.destinations.map((one) => one.destination).sort(), [...destinations].sort())
    },
  },
  {
    name: 'two records with the same message id are two records',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, record('same', { destination: 'a' }), record('same', { destination: 'b' }))
      const claimed = await claim(world.store)
      assert.deepEqual(idsOf(claimed), ['same', 'same'])
      assert.notEqual(claimed[0]?.id, claimed[1]?.id)
    },
  },
]

function textOf(value: AttributeValue | undefined): string {
  if (value instanceof Date) return value.toISOString()
  return value instanceof Uint8Array ? Buffer.from(value).toString('base64') : String(value)
}

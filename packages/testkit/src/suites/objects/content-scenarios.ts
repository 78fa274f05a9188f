import assert from 'node:assert/strict'
import {
  assertAbsent,
  assertBytes,
  assertListed,
  assertStored,
  bytesOf,
  clockAfter,
  get,
  manyBytes,
  type ObjectScenario,
  put,
  storedAt,
} from './object-world.ts'

const everyByte = Uint8Array.from({ length: 256 }, (_, index) => index)

export const contentScenarios: readonly ObjectScenario[] = [
  {
    name: 'an object is found again with its exact bytes, also by another process',
    basic: true,
    async run(open) {
      await using world = await open()
      await put(world, 'orders/bytes', everyByte)
      await put(world, 'orders/text', '{"title":"\u00e9\u{1f9fe}"}\r\n')
      for (const reader of [world, { store: await world.another() }]) {
        await assertStored(reader, 'orders/bytes', everyByte)
        await assertStored(reader, 'orders/text', '{"title":"\u00e9\u{1f9fe}"}\r\n')
      }
    },
  },
  {
    name: 'an object may be empty',
    async run(open) {
      await using world = await open()
      await put(world, 'empty', new Uint8Array())
      await assertStored(world, 'empty', new Uint8Array())
      await assertListed(world, ['empty'])
    },
  },
  {
    name: 'an object may have several megabytes',
    async run(open) {
      await using world = await open()
      const bytes = manyBytes(6_000_007)
      await put(world, 'large', bytes)
      await assertStored(world, 'large', bytes)
    },
  },
  {
    name: 'a view of a larger array is stored without the bytes around it',
    async run(open) {
      await using world = await open()
      await put(world, 'view', everyByte.subarray(10, 20))
      await put(world, 'buffer', Buffer.from(everyByte).subarray(30, 33))
      await assertStored(world, 'view', everyByte.slice(10, 20))
      await assertStored(world, 'buffer', everyByte.slice(30, 33))
    },
  },
  {
    name: 'a stored object does not change with the arrays that it was written from or read into',
    async run(open) {
      await using world = await open()
      // `slice()` of a Buffer is no copy.
      for (const [key, own] of [
        ['kept', bytesOf('kept')],
        ['buffer', Buffer.from('kept')],
      ] as const) {
        await put(world, key, own)
        own.fill(0)
        const found = await get(world, key)
        assertBytes(found, 'kept', key)
        found?.fill(0)
        await assertStored(world, key, 'kept')
      }
    },
  },
  {
    name: 'a key without an object has no bytes',
    basic: true,
    async run(open) {
      await using world = await open()
      await assertAbsent(world, 'orders')
      await put(world, 'orders/2026/one', 'one')
      for (const key of ['orders', 'orders/2026', 'orders/2026/on', 'orders/2026/one1', 'orders/2026/one/more', 'one', '2026/one']) {
        await assertAbsent(world, key)
      }
    },
  },
  {
    name: 'a repeated put replaces the object and makes it younger',
    async run(open) {
      await using world = await open()
      await put(world, 'orders/1', 'first, and longer')
      await put(world, 'orders/2', 'other')
      const first = await storedAt(world, 'orders/1')
      const other = await storedAt(world, 'orders/2')
      await clockAfter(world, first)
      await put({ store: await world.another() }, 'orders/1', 'second')
      await assertStored(world, 'orders/1', 'second')
      assert.ok((await storedAt(world, 'orders/1')) > first, 'a repeated put must make the object younger')
      assert.deepEqual(await storedAt(world, 'orders/2'), other)
      await assertListed(world, ['orders/1', 'orders/2'])
    },
  },
  {
    name: 'an object that is larger than its reader accepts is rejected, and a smaller one is not',
    async run(open) {
      await using world = await open()
      await put(world, 'sized', everyByte)
      for (const maxBytes of [256, 257]) assertBytes(await get(world, 'sized', maxBytes), everyByte, 'sized')
      for (const maxBytes of [255, 0]) {
        await assert.rejects(get(world, 'sized', maxBytes), { code: 'ACKORD_PAYLOAD_INVALID', retryable: false })
      }
      assert.equal(await get(world, 'absent', 0), undefined)
    },
  },
]

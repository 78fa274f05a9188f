import assert from 'node:assert/strict'
import { assertAbsent, assertListed, assertStored, get, type ObjectScenario, put } from './object-world.ts'

/** Keys that a careless store mistakes for each other. */
const similar = [
  'orders/1',
  'orders-1',
  'orders.1',
  'orders_1',
  'orders/1.json',
  'orders1',
  'orders/2/1',
  'orders/12',
  '1',
  '0',
  '-',
  '_',
  '01',
]

const invalid = [
  '',
  '/',
  '/orders',
  'orders/',
  'orders//1',
  '.',
  '..',
  './orders',
  '../orders',
  'orders/..',
  'orders/../1',
  'orders/./1',
  '.hidden',
  'orders/.hidden',
  'orders\\1',
  '..\\orders',
  'C:/orders',
  'orders 1',
  'orders\n',
  'orders\0',
  'orders%2f1',
  'orders?1',
  'orders#1',
  'caf\u00e9',
  'x'.repeat(201),
  `${'x/'.repeat(256)}x`,
]

export const keyScenarios: readonly ObjectScenario[] = [
  {
    name: 'keys that look alike are different objects',
    async run(open) {
      await using world = await open()
      for (const key of similar) await put(world, key, `the object ${key}`)
      for (const key of similar) await assertStored(world, key, `the object ${key}`)
      await assertListed(world, similar)
      await world.store.delete(['orders/1'])
      await assertListed(
        world,
        similar.filter((key) => key !== 'orders/1'),
      )
    },
  },
  {
    name: 'keys may have 512 characters, in parts of up to 200, and every character that is allowed',
    async run(open) {
      await using world = await open()
      const part = 'x'.repeat(200)
      const keys = [
        `${part}/${part}/${'x'.repeat(110)}`,
        `${part}/${part}/${'x'.repeat(109)}y`,
        `orders/${'x'.repeat(199)}y`,
        `orders/${'x'.repeat(199)}z`,
        `${'xxxx/'.repeat(102)}xy`,
        'ABCDEFGHIJKLMNOPQRSTUVWXYZ/abcdefghijklmnopqrstuvwxyz/0123456789/-_/a.-_/a..b',
      ]
      for (const key of keys) await put(world, key, key)
      for (const key of keys) await assertStored(world, key, key)
      await assertListed(world, keys)
      await world.store.delete(keys)
      await assertListed(world, [])
    },
  },
  {
    name: 'invalid keys are rejected, and nothing is stored or deleted',
    async run(open) {
      await using world = await open()
      await put(world, 'orders/1', 'one')
      const refused = { code: 'ACKORD_INVALID_OPTION' }
      for (const key of invalid) {
        await assert.rejects(put(world, key, 'bytes'), refused, `put(${JSON.stringify(key)})`)
        await assert.rejects(get(world, key), refused, `get(${JSON.stringify(key)})`)
        await assert.rejects(world.store.delete(['orders/1', key]), refused, `delete([${JSON.stringify(key)}])`)
      }
      await assertListed(world, ['orders/1'])
      await assertAbsent(world, 'orders')
    },
  },
]

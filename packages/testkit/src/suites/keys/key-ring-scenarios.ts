import assert from 'node:assert/strict'
import {
  assertForgotten,
  assertKey,
  assertNoKey,
  assertSameKey,
  get,
  getToWrite,
  type KeyRingFeatures,
  type KeyRingScenario,
} from './key-ring-world.ts'

/** Ids that a careless ring mistakes for each other. */
const similar = [
  'person-1',
  'Person-1',
  'person-1 ',
  ' person-1',
  'person-10',
  'person',
  'caf\u00e9',
  'cafe\u0301',
  'cafe',
  'person%',
  'person_1',
]

const odd = [
  `it's "quoted"`,
  String.raw`back\slash`,
  'line\nbreak',
  '/a/../b',
  '{braces}:*',
  '$1 ? :id',
  '\ufeffmark',
  '\u{1f511}'.repeat(63),
  'x'.repeat(255),
  '__proto__',
]

const baseScenarios: readonly KeyRingScenario[] = [
  {
    name: 'the current key has 32 bytes, and is the same in each call and process',
    basic: true,
    async run(open) {
      await using world = await open()
      const { current } = world.ring
      assert.ok(typeof current === 'string' && current !== '', 'the id of the current key must be a non-empty string')
      const key = assertKey(await getToWrite(world.ring, current), current)
      assert.notEqual(new Set(key).size, 1, 'a key must be random')
      for (const ring of [world.ring, await world.another()]) {
        assertSameKey(await get(ring, current), key, current)
        assertSameKey(await getToWrite(ring, current), key, current)
      }
    },
  },
  {
    name: 'a key that does not exist is undefined, and is not created for a reader',
    basic: true,
    async run(open) {
      await using world = await open()
      // Ids come from messages, and so from everyone who can write to the broker.
      for (const keyId of [...similar, ...odd, 'constructor', 'toString']) await assertNoKey(world.ring, keyId)
      for (const keyId of [...similar, ...odd]) await assertNoKey(await world.another(), keyId)
    },
  },
  {
    name: 'a key does not change with the array that a caller got',
    async run(open) {
      await using world = await open()
      const { current } = world.ring
      const answer = await getToWrite(world.ring, current)
      const key = assertKey(answer, current)
      if (answer instanceof Uint8Array) answer.fill(0)
      const read = await get(world.ring, current)
      assertSameKey(read, key, current)
      if (read instanceof Uint8Array) read.fill(0)
      assertSameKey(await getToWrite(world.ring, current), key, current)
    },
  },
]

const creatingScenarios: readonly KeyRingScenario[] = [
  {
    name: 'a key is created for a writer, and every process finds it',
    basic: true,
    async run(open) {
      await using world = await open()
      const key = assertKey(await getToWrite(world.ring, 'person-1'), 'person-1')
      for (const ring of [world.ring, await world.another()]) {
        assertSameKey(await get(ring, 'person-1'), key, 'person-1')
        assertSameKey(await getToWrite(ring, 'person-1'), key, 'person-1')
      }
    },
  },
  {
    name: 'writers that need a key at the same time get the same one',
    async run(open) {
      await using world = await open()
      const rings = [world.ring, await world.another(), await world.another()]
      const answers = await Promise.all(Array.from({ length: 30 }, (_, index) => getToWrite(rings[index % 3] ?? world.ring, 'person-1')))
      const key = assertKey(await get(world.ring, 'person-1'), 'person-1')
      for (const answer of answers) assertSameKey(answer, key, 'person-1')
    },
  },
  {
    name: 'ids may have any characters, and those that look alike have different keys',
    async run(open) {
      await using world = await open()
      const keys = new Map<string, string>()
      for (const keyId of [...similar, ...odd]) {
        await assertNoKey(world.ring, keyId)
        keys.set(keyId, Buffer.from(assertKey(await getToWrite(world.ring, keyId), keyId)).toString('hex'))
      }
      assert.equal(new Set(keys.values()).size, keys.size, 'two ids must not have the same key')
      for (const [keyId, key] of keys) assertSameKey(await get(await world.another(), keyId), Buffer.from(key, 'hex'), keyId)
    },
  },
]

const forgettingScenarios: readonly KeyRingScenario[] = [
  {
    name: 'a forgotten key is forgotten in every process, and the others stay',
    basic: true,
    async run(open) {
      await using world = await open()
      const other = await world.another()
      const { current } = world.ring
      const key = assertKey(await getToWrite(world.ring, current), current)
      await getToWrite(world.ring, 'person-1')
      await get(other, 'person-1')
      await world.forget('person-1')
      for (const ring of [world.ring, other, await world.another()]) {
        await assertForgotten(ring, 'person-1')
        assertSameKey(await get(ring, current), key, current)
      }
    },
  },
  {
    name: 'a key can be forgotten twice, and before it exists',
    async run(open) {
      await using world = await open()
      await world.forget('person-1')
      await world.forget('person-1')
      await assertForgotten(world.ring, 'person-1')
      await assertForgotten(await world.another(), 'person-1')
      await assertNoKey(world.ring, 'person-2')
    },
  },
]

/** All scenarios for key rings with these features: the base, and the scenarios that each feature adds. */
export function keyRingScenarios({ creates, forgets }: KeyRingFeatures): readonly KeyRingScenario[] {
  return [...baseScenarios, ...(creates ? creatingScenarios : []), ...(forgets ? forgettingScenarios : [])]
}

import assert from 'node:assert/strict'
import type { StoredAnswer } from '@ackord/outbox'
import {
  answer,
  answered,
  assertAnswer,
  assertClaimLost,
  assertState,
  claimed,
  type IdempotencyScenario,
  type IdempotencyWorld,
  key,
  place,
  retention,
} from './idempotency-world.ts'

const everyByte = Uint8Array.from({ length: 256 }, (_, index) => index)
const json = ['content-type', 'application/json'] as const

/** Stores the answer and asserts that it is found again, by another process. */
async function assertKept(world: IdempotencyWorld, stored: StoredAnswer, id: string): Promise<void> {
  const which = { scope: key.scope, key: id }
  const token = await claimed(world, which)
  assertAnswer(await world.store.write(which, token, async () => stored, { retention }), stored)
  assertAnswer(await answered(await world.another(), which), stored)
}

export const answerScenarios: readonly IdempotencyScenario[] = [
  {
    name: 'an answer is found again with its status, its headers and its exact bytes',
    basic: true,
    async run(open) {
      await using world = await open()
      await assertKept(world, { status: 201, headers: [json, ['location', '/orders/1']], body: everyByte }, 'bytes')
      await assertKept(world, { status: 422, headers: [json], body: new TextEncoder().encode('{"title":"\u00e9\u{1f9fe}"}') }, 'text')
    },
  },
  {
    name: 'an empty body and no headers are an answer too',
    async run(open) {
      await using world = await open()
      await assertKept(world, { status: 204, headers: [], body: new Uint8Array() }, 'empty')
    },
  },
  {
    name: 'repeated headers keep their number and order, and values any characters',
    async run(open) {
      await using world = await open()
      const headers = [
        ['set-cookie', 'b=2; Path=/'],
        ['x-text', `it's "quoted" \\ \u00e9 \u{1f9fe} \t`],
        ['set-cookie', 'a=1, c=3'],
        ['x-empty', ''],
        ['set-cookie', 'b=2; Path=/'],
        ['__proto__', 'x'],
      ] as const
      await assertKept(world, { status: 200, headers, body: everyByte }, 'repeated')
    },
  },
  {
    name: 'an answer may have many headers and a large body',
    async run(open) {
      await using world = await open()
      const headers = Array.from({ length: 200 }, (_, index) => [`x-header-${index}`, `${index} `.repeat(20)] as const)
      const body = Uint8Array.from({ length: 1_000_000 }, (_, index) => (index * 31) % 256)
      await assertKept(world, { status: 200, headers, body }, 'large')
    },
  },
  {
    name: 'a stored answer does not change with the objects that it was made of',
    async run(open) {
      await using world = await open()
      const own = { status: 200, headers: [['x-name', 'kept'] as [string, string]], body: new TextEncoder().encode('kept') }
      await world.store.write(key, await claimed(world), async () => own, { retention })
      own.body.fill(0)
      const [header] = own.headers
      if (header !== undefined) header[1] = 'changed'
      const expected = { status: 200, headers: [['x-name', 'kept'] as const], body: new TextEncoder().encode('kept') }
      const found = await answered(world)
      assertAnswer(found, expected)
      found.body.fill(0)
      assertAnswer(await answered(world), expected)
    },
  },
  {
    name: 'an invalid answer is rejected, and nothing is stored',
    async run(open) {
      await using world = await open()
      const token = await claimed(world)
      const valid = answer('valid')
      const invalid: readonly unknown[] = [
        undefined,
        { ...valid, status: 20 },
        { ...valid, status: 200.5 },
        { ...valid, headers: [['only a name']] },
        { ...valid, headers: { 'content-type': 'text/plain' } },
        { ...valid, body: 'text' },
      ]
      for (const one of invalid) {
        await assert.rejects(
          world.store.write(key, token, async () => one as StoredAnswer, { retention }),
          { code: 'ACKORD_INVALID_OUTPUT' },
        )
      }
      await assertState(world, 'running')
    },
  },
  {
    name: 'an answer is remembered for its retention, from the commit on, and is then absent',
    basic: true,
    async run(open) {
      await using world = await open()
      const token = await claimed(world)
      await world.advance(30_000)
      await place(world, token, 'first')
      await world.advance(retention - 20_000)
      assertAnswer(await answered(world), answer('first'))
      await world.advance(20_001)
      const second = await claimed(world, key, { fingerprint: 'f2' })
      assert.notEqual(second, token)
      await assertState(world, 'running', key, { fingerprint: 'f2' })
      await place(world, second, 'second')
      await assertState(world, 'answered', key, { fingerprint: 'f2' })
    },
  },
  {
    name: 'a token is of no use when the retention of its answer has ended',
    async run(open) {
      await using world = await open()
      const token = await claimed(world)
      await place(world, token, 'first')
      await world.advance(retention + 1)
      await assertClaimLost(place(world, token, 'again'))
      const second = await claimed(world)
      await world.store.release(key, token)
      await assertState(world, 'running')
      await assertClaimLost(place(world, token, 'again'))
      await place(world, second, 'second')
      assertAnswer(await answered(world), answer('second'))
    },
  },
]

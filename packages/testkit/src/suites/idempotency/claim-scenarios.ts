import assert from 'node:assert/strict'
import { isAckordError } from '@ackord/core'
import type { IdempotencyClaim, IdempotencyKey } from '@ackord/outbox'
import {
  answer,
  answered,
  assertAnswer,
  assertState,
  claim,
  claimed,
  type IdempotencyScenario,
  key,
  lease,
  place,
  retention,
} from './idempotency-world.ts'

/** Keys that a careless store mistakes for each other. */
const similar: readonly IdempotencyKey[] = [
  { scope: 'orders', key: 'key' },
  { scope: 'Orders', key: 'key' },
  { scope: 'orders', key: 'KEY' },
  { scope: 'orders', key: 'key ' },
  { scope: 'orders ', key: 'key' },
  { scope: 'orders', key: ' key' },
  { scope: 'ordersk', key: 'ey' },
  { scope: 'orders', key: 'caf\u00e9' },
  { scope: 'orders', key: 'cafe\u0301' },
  { scope: 'orders', key: 'cafe' },
  { scope: 'orders', key: 'stra\u00dfe' },
  { scope: 'orders', key: 'strasse' },
]

const odd: readonly string[] = [
  `it's "quoted" \`so\``,
  String.raw`back\slash \0 \'`,
  'percent % under_score',
  '{braces}:colon:*',
  'line\r\nbreak\ttab',
  '$1 ? ?1 :name',
  '\u{1f9fe} \u4f60\u597d \u0434\u0430',
  '\u0001\u007f\u00a0\u200b',
  'null',
  '__proto__',
]

export const claimScenarios: readonly IdempotencyScenario[] = [
  {
    name: 'the first claim of a key gets it, and the next one finds it running',
    basic: true,
    async run(open) {
      await using world = await open()
      const token = await claimed(world)
      assert.ok(typeof token === 'string' && token !== '', 'a token must be a non-empty string')
      const found = await claim(await world.another())
      if (found.state !== 'running') assert.fail(`the key is ${found.state}`)
      assert.ok(found.remaining >= 1 && found.remaining <= lease, `the remaining lease is ${found.remaining} ms of ${lease}`)
    },
  },
  {
    name: 'a running request tells how much of its lease remains, and claims of others do not prolong it',
    async run(open) {
      await using world = await open()
      await claimed(world)
      await world.advance(40_000)
      await claim(world, key, { lease: 10 * lease })
      const found = await claim(world)
      if (found.state !== 'running') assert.fail(`the key is ${found.state}`)
      assert.ok(found.remaining >= 1 && found.remaining <= 20_000, `the remaining lease is ${found.remaining} ms instead of 20,000`)
    },
  },
  {
    name: 'of many concurrent claims exactly one gets the key',
    async run(open) {
      await using world = await open()
      const processes = [world, await world.another(), await world.another()]
      const found = await Promise.all(Array.from({ length: 50 }, (_, index) => claim(processes[index % 3] ?? world)))
      assert.deepEqual(countStates(found), { claimed: 1, running: 49 })
    },
  },
  {
    name: 'of many concurrent claims after the end of a lease exactly one takes over',
    async run(open) {
      await using world = await open()
      await claimed(world)
      await world.advance(lease + 1)
      const processes = [world, await world.another(), await world.another()]
      const found = await Promise.all(Array.from({ length: 50 }, (_, index) => claim(processes[index % 3] ?? world)))
      assert.deepEqual(countStates(found), { claimed: 1, running: 49 })
    },
  },
  {
    name: 'another fingerprint is a mismatch while the request is running, and changes nothing',
    basic: true,
    async run(open) {
      await using world = await open()
      const token = await claimed(world)
      await assertState(world, 'mismatch', key, { fingerprint: 'f2' })
      await assertState(world, 'running')
      await place(world, token, 'first')
      assertAnswer(await answered(world), answer('first'))
    },
  },
  {
    name: 'another fingerprint is a mismatch when the request is answered',
    async run(open) {
      await using world = await open()
      await place(world, await claimed(world), 'first')
      await assertState(world, 'mismatch', key, { fingerprint: 'f2' })
      assertAnswer(await answered(world), answer('first'))
    },
  },
  {
    name: 'another fingerprint does not take over a claim whose lease has ended',
    async run(open) {
      await using world = await open()
      const token = await claimed(world)
      await world.advance(lease + 1)
      await assertState(world, 'mismatch', key, { fingerprint: 'f2' })
      await place(world, token, 'first')
      assertAnswer(await answered(world), answer('first'))
    },
  },
  {
    name: 'fingerprints are compared byte by byte',
    async run(open) {
      await using world = await open()
      await claimed(world, key, { fingerprint: 'print' })
      for (const fingerprint of ['PRINT', 'print ', 'pr\u00ednt']) await assertState(world, 'mismatch', key, { fingerprint })
      await assertState(world, 'running', key, { fingerprint: 'print' })
    },
  },
  {
    name: 'scopes and keys that look alike are different requests',
    async run(open) {
      await using world = await open()
      for (const [index, which] of similar.entries()) await place(world, await claimed(world, which), `order ${index}`, { which })
      for (const [index, which] of similar.entries()) assertAnswer(await answered(world, which), answer(`order ${index}`))
    },
  },
  {
    name: 'scopes and keys may have any characters',
    async run(open) {
      await using world = await open()
      const all = odd.flatMap((text) => [
        { scope: text, key: 'key' },
        { scope: 'orders', key: text },
      ])
      for (const [index, which] of all.entries()) await place(world, await claimed(world, which), `order ${index}`, { which })
      for (const [index, which] of all.entries()) assertAnswer(await answered(world, which), answer(`order ${index}`))
    },
  },
  {
    name: 'scopes and keys may have 255 characters, and longer ones are rejected',
    async run(open) {
      await using world = await open()
      for (const character of ['x', '\u4f60']) {
        const long = character.repeat(255)
        const alike = `${character.repeat(254)}y`
        const all = [
          { scope: long, key: long },
          { scope: long, key: alike },
          { scope: alike, key: long },
        ]
        for (const which of all) await claimed(world, which)
        for (const which of all) await assertState(world, 'running', which)
      }
      const tooLong = 'x'.repeat(256)
      for (const which of [
        { scope: tooLong, key: 'key' },
        { scope: 'orders', key: tooLong },
      ]) {
        await assertInvalid(claim(world, which), '255')
        await assertInvalid(place(world, 'token', 'first', { which }), '255')
        await assertInvalid(world.store.release(which, 'token'), '255')
      }
    },
  },
  {
    name: 'invalid keys and options are rejected',
    async run(open) {
      await using world = await open()
      for (const text of ['', 'nul\0', '\ud800']) {
        await assertInvalid(claim(world, { scope: text, key: 'key' }), 'scope')
        await assertInvalid(claim(world, { scope: 'orders', key: text }), 'key')
      }
      await assertInvalid(claim(world, key, { fingerprint: '' }), 'fingerprint')
      await assertInvalid(claim(world, key, { lease: 0 }), 'lease')
      await assertInvalid(claim(world, key, { lease: Number.NaN }), 'lease')
      const token = await claimed(world)
      await assertInvalid(place(world, token, 'first', { retention: 0 }), 'retention')
      await assertInvalid(place(world, token, 'first', { retention: Infinity }), 'retention')
      await place(world, token, 'first', { retention })
    },
  },
]

function countStates(found: readonly IdempotencyClaim[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { state } of found) counts[state] = (counts[state] ?? 0) + 1
  return counts
}

/** Asserts that the call is rejected because of an option, and that the message says which. */
async function assertInvalid(call: Promise<unknown>, mentioned: string): Promise<void> {
  await assert.rejects(call, (error) => {
    assert.ok(isAckordError(error, 'ACKORD_INVALID_OPTION'), `rejected with ${String(error)}`)
    assert.ok(error.message.includes(mentioned), `the message does not mention ${mentioned}: ${error.message}`)
    return true
  })
}

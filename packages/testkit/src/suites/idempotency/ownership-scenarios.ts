import assert from 'node:assert/strict'
import {
  answer,
  answered,
  assertAnswer,
  assertClaimLost,
  assertPlaced,
  assertState,
  claimed,
  type IdempotencyScenario,
  key,
  lease,
  place,
  whileOpen,
} from './idempotency-world.ts'

/** Release and takeover: the token alone decides. */
export const ownershipScenarios: readonly IdempotencyScenario[] = [
  {
    name: 'a released key can be claimed at once, also for another request',
    basic: true,
    async run(open) {
      await using world = await open()
      const first = await claimed(world)
      await world.store.release(key, first)
      const second = await claimed(await world.another(), key, { fingerprint: 'f2' })
      assert.notEqual(second, first)
      await assertClaimLost(place(world, first, 'first'))
      await assertState(world, 'running', key, { fingerprint: 'f2' })
      await assertPlaced(world, ['first'], [])
    },
  },
  {
    name: 'a release under another token, or of an absent key, has no effect',
    async run(open) {
      await using world = await open()
      const other = { scope: key.scope, key: 'k2' }
      const token = await claimed(world)
      const otherToken = await claimed(world, other)
      await world.store.release(key, otherToken)
      await world.store.release(key, 'unknown')
      await world.store.release(key, '')
      await world.store.release({ scope: key.scope, key: 'absent' }, token)
      await assertState(world, 'running')
      await assertState(world, 'running', other)
      await place(world, token, 'first')
      assertAnswer(await answered(world), answer('first'))
    },
  },
  {
    name: 'a release after the answer has no effect',
    async run(open) {
      await using world = await open()
      const token = await claimed(world)
      await place(world, token, 'first')
      await world.store.release(key, token)
      assertAnswer(await answered(world), answer('first'))
    },
  },
  {
    name: 'a claim can be taken over when its lease has ended, and not before',
    basic: true,
    async run(open) {
      await using world = await open()
      const other = await world.another()
      const first = await claimed(world)
      await world.advance(lease - 30_000)
      await assertState(other, 'running')
      await world.advance(30_001)
      const second = await claimed(other)
      assert.notEqual(second, first)
      await assertState(world, 'running')
    },
  },
  {
    name: 'after a takeover the write of the first request is rejected and leaves nothing',
    basic: true,
    async run(open) {
      await using world = await open()
      const other = await world.another()
      const first = await claimed(world)
      await world.advance(lease + 1)
      const second = await claimed(other)
      await assertClaimLost(place(world, first, 'first'))
      await assertPlaced(world, ['first', 'second'], [])
      await assertState(world, 'running')
      await place(other, second, 'second')
      await assertClaimLost(place(world, first, 'first'))
      await assertPlaced(world, ['first', 'second'], ['second'])
      assertAnswer(await answered(world), answer('second'))
    },
  },
  {
    name: 'after a takeover the release of the first request has no effect',
    async run(open) {
      await using world = await open()
      const first = await claimed(world)
      await world.advance(lease + 1)
      const second = await claimed(world)
      await world.store.release(key, first)
      await assertState(world, 'running')
      await place(world, second, 'second')
      assertAnswer(await answered(world), answer('second'))
    },
  },
  {
    name: 'without a takeover the request that has the claim commits after its lease has ended',
    async run(open) {
      await using world = await open()
      const token = await claimed(world)
      await world.advance(10 * lease)
      await place(world, token, 'first')
      await assertPlaced(world, ['first'], ['first'])
      assertAnswer(await answered(world), answer('first'))
    },
  },
  {
    name: 'without a takeover the request that has the claim can release it after its lease has ended',
    async run(open) {
      await using world = await open()
      const token = await claimed(world)
      await world.advance(10 * lease)
      await world.store.release(key, token)
      await claimed(world, key, { fingerprint: 'f2' })
    },
  },
]

/** With several writes at once. */
export const concurrentOwnershipScenarios: readonly IdempotencyScenario[] = [
  {
    name: 'a takeover during the work rejects the write and leaves nothing',
    async run(open) {
      await using world = await open()
      const other = await world.another()
      const first = await claimed(world)
      let second = ''
      const { writing } = await whileOpen(world, first, 'first', async () => {
        await world.advance(lease + 1)
        second = await claimed(other)
      })
      await assertClaimLost(writing)
      await assertPlaced(world, ['first'], [])
      await place(other, second, 'second')
      await assertPlaced(world, ['first', 'second'], ['second'])
    },
  },
  {
    name: 'a release during the work rejects the write and leaves nothing',
    async run(open) {
      await using world = await open()
      const token = await claimed(world)
      const { writing } = await whileOpen(world, token, 'first', () => world.store.release(key, token))
      await assertClaimLost(writing)
      await assertPlaced(world, ['first'], [])
      await claimed(world)
    },
  },
]

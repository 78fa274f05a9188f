import assert from 'node:assert/strict'
import { isAckordError } from '@ackord/core'
import { eventLoopTurn } from '../../helpers/virtual-runtime.ts'
import { within } from '../../run/scenario.ts'
import {
  answered,
  assertAnswer,
  assertPlaced,
  assertState,
  claim,
  claimed,
  type IdempotencyProcess,
  type IdempotencyScenario,
  type IdempotencyWorld,
  key,
  lease,
  place,
  whileOpen,
} from './idempotency-world.ts'

/** Milliseconds in which a request that waits for no other request has ended on any machine. */
const promptly = 3_000

export const contentionScenarios: readonly IdempotencyScenario[] = [
  {
    name: 'a claim does not wait for the open transaction of the request that has the key',
    async run(open) {
      await using world = await open()
      const other = await world.another()
      const token = await claimed(world)
      const { writing } = await whileOpen(world, token, 'first', async () => {
        await within(promptly, assertState(other, 'running'), 'the claim')
        await within(promptly, assertState(other, 'mismatch', key, { fingerprint: 'f2' }), 'the claim')
        await within(promptly, assertState(world, 'running'), 'the claim')
      })
      await writing
      await assertState(other, 'answered')
    },
  },
  {
    name: 'two concurrent writes under one token commit once',
    async run(open) {
      await using world = await open()
      const other = await world.another()
      for (let round = 0; round < 10; round += 1) {
        const which = { scope: key.scope, key: `k${round}` }
        const token = await claimed(world, which)
        const results = await Promise.allSettled([
          place(world, token, `one ${round}`, { which }),
          place(other, token, `two ${round}`, { which }),
        ])
        const stored = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
        assert.equal(stored.length, 1, 'exactly one of the writes must commit')
        const [only] = stored
        if (only !== undefined) assertAnswer(await answered(world, which), only)
      }
      assert.equal((await world.events()).length, 10)
    },
  },
  {
    name: 'processes that compete and take over from each other answer each request once',
    async run(open) {
      await using world = await open()
      const processes = [world, await world.another(), await world.another(), await world.another()]
      const requests = ['r1', 'r2', 'r3']
      const serving = requests.flatMap((request) =>
        processes.map((process, index) => serve(world, process, `${request} of ${index}`, request)),
      )
      const attempts = (await Promise.all(serving)).flat()
      const committed: string[] = []
      for (const request of requests) {
        const { body } = await answered(world, { scope: key.scope, key: request })
        committed.push(new TextDecoder().decode(body))
      }
      await assertPlaced(
        world,
        attempts.toSorted((one, two) => committed.indexOf(one) - committed.indexOf(two)),
        committed,
      )
      return `${attempts.length} attempts of ${requests.length} requests`
    },
  },
]

/** With several writes at once. */
export const concurrentClaimScenarios: readonly IdempotencyScenario[] = [
  {
    name: 'other requests are claimed, answered and released while the transaction of a request is open',
    async run(open) {
      await using world = await open()
      const token = await claimed(world)
      const which = { scope: key.scope, key: 'k2' }
      const answerOthers = async () => {
        const other = await world.another()
        await place(other, await claimed(other, which), 'second', { which })
        const released = { scope: key.scope, key: 'k3' }
        await world.store.release(released, await claimed(world, released))
      }
      const { writing } = await whileOpen(world, token, 'first', () => within(promptly, answerOthers(), 'the other requests'))
      await writing
      await assertPlaced(world, ['first', 'second'], ['first', 'second'])
    },
  },
]

/**
 * A process that gets the request again and again, until it is answered. In its first attempts the lease ends before it writes, so that others take over.
 * Resolves to the names of its attempts.
 */
async function serve(world: IdempotencyWorld, process: IdempotencyProcess, name: string, request: string): Promise<string[]> {
  const which = { scope: key.scope, key: request }
  const attempts: string[] = []
  while (true) {
    const found = await claim(process, which)
    if (found.state === 'answered') return attempts
    if (found.state === 'mismatch') assert.fail(`${request} is a mismatch`)
    if (found.state === 'running') {
      await eventLoopTurn()
      continue
    }
    const attempt = `${name}, attempt ${attempts.length}`
    attempts.push(attempt)
    if (attempts.length < 3) {
      await world.advance(lease + 1)
      await eventLoopTurn()
    }
    try {
      await place(process, found.token, attempt, { which })
    } catch (error) {
      if (!isAckordError(error, 'ACKORD_CLAIM_LOST')) throw error
    }
  }
}

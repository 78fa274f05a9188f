import assert from 'node:assert/strict'
import { afterCommit, afterRollback, type ContextKey, contextKey, currentContext, enter, rootContext, withSignal } from '@ackord/core'
import { transactionScopeKey } from '@ackord/core/internal'
import {
  answer,
  answered,
  assertAnswer,
  assertClaimLost,
  assertPlaced,
  assertState,
  claimed,
  type IdempotencyScenario,
  place,
} from './idempotency-world.ts'

const callerKey: ContextKey<string> = contextKey('ackord.testkit.caller')

export const writeScenarios: readonly IdempotencyScenario[] = [
  {
    name: 'business writes and events are committed with the answer',
    basic: true,
    async run(open) {
      await using world = await open()
      assertAnswer(await place(world, await claimed(world), 'first'), answer('first'))
      await assertPlaced(world, ['first'], ['first'])
      assertAnswer(await answered(await world.another()), answer('first'))
    },
  },
  {
    name: 'work that rejects leaves neither writes, events nor an answer, and keeps the claim',
    basic: true,
    async run(open) {
      await using world = await open()
      const token = await claimed(world)
      const failure = new Error('out of stock')
      const fail = async () => {
        throw failure
      }
      await assert.rejects(place(world, token, 'first', { before: fail }), failure)
      await assertPlaced(world, ['first'], [])
      await assertState(world, 'running')
      await place(world, token, 'second')
      await assertPlaced(world, ['first', 'second'], ['second'])
      assertAnswer(await answered(world), answer('second'))
    },
  },
  {
    name: 'a token writes once',
    async run(open) {
      await using world = await open()
      const token = await claimed(world)
      await place(world, token, 'first')
      await assertClaimLost(place(world, token, 'second'))
      await assertPlaced(world, ['first', 'second'], ['first'])
      assertAnswer(await answered(world), answer('first'))
    },
  },
  {
    name: 'a write under an unknown token, or of another key, leaves nothing',
    async run(open) {
      await using world = await open()
      const token = await claimed(world)
      const other = { scope: 'POST /payments', key: 'k1' }
      await claimed(world, other)
      await assertClaimLost(place(world, 'unknown', 'first'))
      await assertClaimLost(place(world, token, 'first', { which: other }))
      await assertClaimLost(place(world, token, 'first', { which: { scope: 'POST /orders', key: 'absent' } }))
      await assertPlaced(world, ['first'], [])
      await assertState(world, 'running')
      await assertState(world, 'running', other)
    },
  },
  {
    name: 'the work is done once, in the given context or the ambient one, with the transaction in it',
    async run(open) {
      await using world = await open()
      const seen: unknown[] = []
      const before = () => {
        seen.push(currentContext()?.get(callerKey), currentContext()?.get(transactionScopeKey) !== undefined)
      }
      const given = rootContext().with(callerKey, 'given')
      const which = { scope: 'POST /orders', key: 'k2' }
      const tokens = [await claimed(world), await claimed(world, which)] as const
      await enter(rootContext().with(callerKey, 'ambient'), async () => {
        await place(world, tokens[0], 'first', { before, context: given })
        await place(world, tokens[1], 'second', { before, which })
      })
      assert.deepEqual(seen, ['given', true, 'ambient', true])
    },
  },
  {
    name: 'a context that is aborted during the work rolls everything back',
    async run(open) {
      await using world = await open()
      const token = await claimed(world)
      const reason = new Error('the client is gone')
      const abort = new AbortController()
      const context = withSignal(rootContext(), abort.signal)
      await assert.rejects(place(world, token, 'first', { context, before: () => abort.abort(reason) }), reason)
      await assertPlaced(world, ['first'], [])
      await assertState(world, 'running')
    },
  },
  {
    name: 'afterCommit runs when the answer is stored, and afterRollback when it is not',
    async run(open) {
      await using world = await open()
      const steps: string[] = []
      const token = await claimed(world)
      const writing = (name: string, written: string) =>
        place(world, written, name, {
          before({ context }) {
            afterCommit(context, async () => {
              steps.push(
                `${name} committed`,
                (await world.store.claim({ scope: 'POST /orders', key: 'k1' }, { fingerprint: 'f1', lease: 1 })).state,
              )
            })
            afterRollback(context, () => void steps.push(`${name} rolled back`))
          },
        })
      await assertClaimLost(writing('first', 'unknown'))
      await writing('second', token)
      assert.deepEqual(steps, ['first rolled back', 'second committed', 'answered'])
    },
  },
  {
    name: 'two requests in progress have separate transactions',
    async run(open) {
      await using world = await open()
      const other = await world.another()
      const which = { scope: 'POST /orders', key: 'k2' }
      const tokens = [await claimed(world), await claimed(other, which)] as const
      const fail = async () => {
        throw new Error('out of stock')
      }
      const results = await Promise.allSettled([
        place(world, tokens[0], 'first', { before: fail }),
        place(other, tokens[1], 'second', { which }),
      ])
      assert.deepEqual(
        results.map(({ status }) => status),
        ['rejected', 'fulfilled'],
      )
      await assertPlaced(world, ['first', 'second'], ['second'])
    },
  },
]

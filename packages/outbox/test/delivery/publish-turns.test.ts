import { expect, it } from 'vitest'
import { settlePromises } from '../../../core/test/support/virtual-runtime.ts'
import { PublishTurns } from '../../src/delivery/publish-turns.ts'

const never = new AbortController().signal

/** Takes turns for these stores, in this order, and ends each before the next. Returns the order in which they were granted. */
async function grantedOrder(stores: readonly string[]): Promise<readonly string[]> {
  const turns = new PublishTurns(1)
  const granted: string[] = []
  const ends: (() => void)[] = []
  const end = await turns.of('first')(never)
  for (const store of stores) {
    void turns
      .of(store)(never)
      .then((endOne) => {
        granted.push(store)
        ends.push(endOne)
      })
  }
  end()
  await settlePromises()
  for (let one = ends.shift(); one !== undefined; one = ends.shift()) {
    one()
    await settlePromises()
  }
  return granted
}

it('gives each store one turn before any store gets a second one', async () => {
  expect(await grantedOrder(['a', 'a', 'a', 'b', 'b', 'c'])).toEqual(['a', 'b', 'c', 'a', 'b', 'a'])
})

it('passes a turn on that was aborted while it waited, and counts each end once', async () => {
  const turns = new PublishTurns(1)
  const endFirst = await turns.of('a')(never)
  const stop = new AbortController()
  const waiting = turns.of('b')(stop.signal)
  stop.abort(new Error('stopped'))
  const endAborted = await waiting
  endAborted()
  endAborted()
  endFirst()
  endFirst()
  await settlePromises()
  // There is one turn again, not two and not none.
  const end = await turns.of('c')(never)
  let granted = false
  const next = turns
    .of('d')(never)
    .then((endNext) => {
      granted = true
      return endNext
    })
  await settlePromises()
  expect(granted).toBe(false)
  end()
  ;(await next)()
})

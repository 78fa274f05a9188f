import assert from 'node:assert/strict'
import type { OutboxAdmin, OutboxStore } from '@ackord/outbox'
import {
  claim,
  claimAll,
  claimOne,
  commit,
  commitParked,
  failed,
  hour,
  idsOf,
  type OutboxScenario,
  type OutboxWorld,
  published,
  record,
  records,
} from './outbox-world.ts'

/** What operators may cancel, and what they are too late for. */
export const cancelWaitingScenarios: readonly OutboxScenario[] = [
  {
    name: 'cancelWaiting deletes delayed records and those that back off, and no others',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const store = cancelling(world.store)
      const [parkedId = ''] = await commitParked(world, record('parked'))
      await commit(world, record('ready'), record('backing-off'), record('leased'))
      const claimed = await claim(store)
      const [ready, backingOff, leased] = ['ready', 'backing-off', 'leased'].map((id) => claimed.find(({ message }) => message.id === id))
      assert.ok(ready && backingOff && leased)
      await store.settle([failed(backingOff, hour)])
      await store.release([ready])
      await commit(world, record('delayed', { delay: hour }), record('kept', { delay: hour }))
      const delayedId = await idOf(world, 'delayed')
      const all = [parkedId, ready.id, backingOff.id, leased.id, delayedId, delayedId, 'unknown']
      assert.equal(await store.cancelWaiting(all, 'not needed', { by: 'ann' }), 2)
      assert.equal(await store.cancelWaiting(all, 'again'), 0)
      assert.deepEqual([await store.get(backingOff.id), await store.get(delayedId)], [undefined, undefined])
      const left = (await store.list({}, { limit: 10 })).records.map(({ message, state }) => [message.id, state])
      const expected = [
        ['parked', 'parked'],
        ['ready', 'ready'],
        ['leased', 'leased'],
        ['kept', 'waiting'],
      ]
      assert.deepEqual(left, expected)
      assert.deepEqual(await store.settle([published(leased)]), ['applied'])
      const audit = (await store.audit({ limit: 2 })).map(({ action, by, reason, count }) => [action, by, reason, count])
      assert.deepEqual(
        audit.toSorted((one, other) => Number(one[3]) - Number(other[3])),
        [
          ['cancel', undefined, 'again', 0],
          ['cancel', 'ann', 'not needed', 2],
        ],
      )
      await world.advance(2 * hour)
      assert.deepEqual(idsOf(await claimAll(store)).toSorted(), ['kept', 'ready'])
    },
  },
  {
    name: 'cancelWaiting comes too late for a record that has become due',
    async run(open) {
      await using world = await open({ retain: false })
      const store = cancelling(world.store)
      await commit(world, record('backing-off'))
      await store.settle([failed(await claimOne(store), hour)])
      await commit(world, record('delayed', { delay: hour }))
      const ids = [await idOf(world, 'backing-off'), await idOf(world, 'delayed')]
      await world.advance(hour + 1000)
      assert.equal(await store.cancelWaiting(ids, 'too late'), 0)
      assert.equal(await store.cancelWaiting({ filter: {} }, 'too late'), 0)
      assert.deepEqual(idsOf(await claimAll(store)).toSorted(), ['backing-off', 'delayed'])
    },
  },
  {
    name: 'cancelWaiting by filter selects the waiting records that match, and no others',
    async run(open) {
      await using world = await open({ retain: false })
      const store = cancelling(world.store)
      await commitParked(world, record('parked', { destination: 'reminders' }))
      await commit(
        world,
        ...records(3, 'o', { delay: hour }),
        ...records(2, 'r', { delay: hour, destination: 'reminders' }),
        record('ready'),
      )
      assert.equal(await store.cancelWaiting({ filter: { destination: 'reminders', state: 'parked' } }, 'wrong state'), 0)
      assert.equal(await store.cancelWaiting({ filter: { messageId: 'o2' } }, 'one of them'), 1)
      assert.equal(await store.cancelWaiting({ filter: { destination: 'reminders' } }, 'campaign over'), 2)
      assert.equal(await store.cancelWaiting({ filter: { type: 'order.other' } }, 'none'), 0)
      const left = (await store.list({}, { limit: 10 })).records
      assert.deepEqual(idsOf(left).toSorted(), ['o1', 'o3', 'parked', 'ready'])
    },
  },
  {
    name: 'a cancelled record is gone where published records are kept, too',
    async run(open) {
      await using world = await open({ retain: true })
      const store = cancelling(world.store)
      await commit(world, ...records(3))
      const claimed = await claimAll(store)
      await store.settle(claimed.map((one) => (one.message.id === 'e3' ? published(one) : failed(one, hour))))
      assert.equal(await store.cancelWaiting([claimed.find(({ message }) => message.id === 'e1')?.id ?? ''], 'not needed'), 1)
      await world.transaction(async (transaction) => {
        await transaction.cancel?.([{ destination: 'orders', source: '/orders', id: 'e2' }])
      })
      const left = (await store.list({}, { limit: 10 })).records
      assert.deepEqual(idsOf(left.filter(({ state }) => state !== 'published')), [])
      assert.ok(idsOf(left).every((id) => id === 'e3'))
    },
  },
]

function cancelling(store: OutboxWorld['store']): OutboxStore & Required<OutboxAdmin> {
  assert.equal(typeof store.cancelWaiting, 'function', 'the store has no cancelWaiting()')
  return store as OutboxStore & Required<OutboxAdmin>
}

async function idOf(world: OutboxWorld, messageId: string): Promise<string> {
  const { records: found } = await world.store.list({}, { limit: 100 })
  return found.find(({ message }) => message.id === messageId)?.id ?? ''
}

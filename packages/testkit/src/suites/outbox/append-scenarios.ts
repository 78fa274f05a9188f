import assert from 'node:assert/strict'
import { defineEvent, Message, sleep, systemRuntime } from '@ackord/core'
import type { ClaimedRecord, NewEvents, OutboxReference } from '@ackord/outbox'
import {
  claim,
  claimAll,
  claimOne,
  commit,
  failed,
  hour,
  idsOf,
  lease,
  type OutboxFeatures,
  type OutboxScenario,
  type OutboxTransaction,
  type OutboxWorld,
  published,
  record,
  records,
} from './outbox-world.ts'

/** Checks the fixture itself first: a world that does not do what it claims proves nothing. */
export function fixtureScenario(features: OutboxFeatures): OutboxScenario {
  return {
    name: 'the fixture does what it claims',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const other = await world.another()
      assert.notEqual(other, world.store, 'another() must return a different object')
      assert.equal(world.store.capabilities.delay, features.delay, 'the feature `delay` must say what capabilities.delay does')
      await world.transaction(async (transaction) => {
        assert.equal(transaction.savepoint !== undefined, features.savepoints, 'a transaction must have savepoint() as the feature says')
      })
      assert.deepEqual(await claim(world.store), [], 'a new world must be empty')

      await commit(world, record('e1'))
      await claimOne(other)
      await world.advance(lease + 1)
      await claimOne(world.store)

      await using second = await open({ retain: false })
      await commit(second, record('e2'))
      assert.deepEqual(idsOf(await claim(world.store)), [], 'two worlds must not share records')
    },
  }
}

export const appendScenarios: readonly OutboxScenario[] = [
  {
    name: 'a committed record can be claimed, with the content that was appended',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, record('e1', { destination: 'invoices' }))
      const claimed = await claimOne(world.store)
      assert.equal(claimed.destination, 'invoices')
      assert.equal(claimed.attempts, 1)
      assert.ok(claimed.id !== '' && claimed.token !== '')
      assert.ok(claimed.createdAt > 1e12, 'createdAt must be milliseconds since the epoch')
      const { id, type, source, specversion } = claimed.message.attributes
      assert.deepEqual({ id, type, source, specversion }, { id: 'e1', type: 'order.placed', source: '/orders', specversion: '1.0' })
      assert.equal(new TextDecoder().decode(claimed.message.data), '"e1"')
    },
  },
  {
    name: 'append takes one event or several, marshals their data, and adds the attributes that they do not have',
    async run(open) {
      await using world = await open({ retain: false })
      const event = (total: number) => new Message({ total }, { type: 'order.placed', source: '/orders' })
      await world.transaction(async (transaction) => {
        await transaction.append({ destination: 'invoices', message: event(1) })
        await transaction.append([
          { destination: 'invoices', message: event(2) },
          { destination: 'invoices', message: event(3) },
        ])
      })
      const claimed = await claim(world.store)
      const texts = claimed.map(({ message }) => new TextDecoder().decode(message.data))
      assert.deepEqual(texts.sort(), ['{"total":1}', '{"total":2}', '{"total":3}'])
      for (const { destination, message } of claimed) {
        const { type, source, specversion, datacontenttype } = message.attributes
        assert.equal(destination, 'invoices')
        assert.deepEqual({ type, source, specversion }, { type: 'order.placed', source: '/orders', specversion: '1.0' })
        assert.equal(datacontenttype, 'application/json')
        assert.ok(message.id, 'an event without an id must get one')
        assert.ok(message.time !== undefined, 'an event without a time must get one')
      }
      assert.equal(new Set(idsOf(claimed)).size, 3, 'each event must get an id of its own')
    },
  },
  {
    name: 'append rejects what is no event, and an event without a destination, a type or a source, and says what to pass',
    async run(open) {
      await using world = await open({ retain: false })
      const message = new Message({ total: 1 }, { type: 'order.placed', source: '/orders' })
      const wrong: readonly (readonly [unknown, RegExp])[] = [
        [undefined, /takes an event, such as orderPlaced/],
        [{ total: 1 }, /takes an event, such as orderPlaced/],
        [[{ destination: 'invoices', message }, 'order'], /Item 1 is/],
        [message, /needs a destination/],
        [{ destination: 'invoices', message: new Message({}, { source: '/orders' }) }, /needs a type/],
        [{ destination: 'invoices', message: new Message({}, { type: 'order.placed' }) }, /needs a source/],
      ]
      for (const [events, text] of wrong) {
        // Callers without types may pass anything.
        await assert.rejects(
          world.transaction((transaction) => transaction.append(events as NewEvents)),
          text,
        )
      }
      assert.deepEqual(await claim(world.store), [])
    },
  },
  {
    name: 'a record cannot be claimed before its transaction commits',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const other = await world.another()
      let claiming: Promise<readonly ClaimedRecord[]> | undefined
      await world.transaction(async (transaction) => {
        await transaction.append([record('e1')])
        claiming = claim(other)
        // With a single connection or writer, the claim waits for the transaction.
        const early = await Promise.race([claiming, sleep(systemRuntime, 200)])
        assert.deepEqual(early ?? [], [])
      })
      const claimed = [...((await claiming) ?? []), ...(await claim(other))]
      assert.deepEqual(idsOf(claimed), ['e1'])
    },
  },
  {
    name: 'an append that is rolled back leaves no record',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const refused = new Error('the handler failed')
      await assert.rejects(
        world.transaction(async (transaction) => {
          await transaction.append(records(3))
          throw refused
        }),
        refused,
      )
      await world.advance(hour)
      assert.deepEqual(await claim(world.store), [])
      assert.deepEqual((await world.store.list({}, { limit: 10 })).records, [])
    },
  },
  {
    name: 'append rejects a transaction that has ended',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      let ended: OutboxTransaction | undefined
      await world.transaction(async (transaction) => {
        ended = transaction
      })
      await assert.rejects(async () => await ended?.append([record('late')]))
      assert.deepEqual(await claim(world.store), [])
    },
  },
  {
    name: 'appending nothing is allowed and stores nothing',
    async run(open) {
      await using world = await open({ retain: false })
      await world.transaction(async (transaction) => {
        await transaction.append([])
        await transaction.append([record('e1')])
        await transaction.append([])
      })
      assert.deepEqual(idsOf(await claim(world.store)), ['e1'])
    },
  },
  {
    name: 'an append is stored completely or not at all',
    async run(open) {
      await using world = await open({ retain: false })
      // A store may or may not be able to store such an id.
      const odd = [record('e1'), record('nul \0'), record('e3')]
      let refused = false
      const refuse = () => {
        refused = true
      }
      await world.transaction((transaction) => transaction.append(odd).catch(refuse)).catch(refuse)
      assert.equal((await claim(world.store)).length, refused ? 0 : 3)
    },
  },
  {
    name: 'records of a destination are claimed in the order they were appended',
    async run(open) {
      await using world = await open({ retain: false })
      const all = records(30)
      await commit(world, ...all.slice(0, 10))
      await world.transaction(async (transaction) => {
        for (const one of all.slice(10, 20)) await transaction.append([one])
      })
      await commit(world, ...all.slice(20))
      assert.deepEqual(idsOf(await claimAll(world.store, { limit: 7 })), idsOf(all))
    },
  },
]

export const savepointScenarios: readonly OutboxScenario[] = [
  {
    name: 'rolling back to a savepoint removes the records that were appended in it, and keeps the others',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      await world.transaction(async (transaction) => {
        await transaction.append([record('before')])
        const undone = transaction.savepoint?.(async () => {
          await transaction.append([record('inside')])
          throw new Error('the savepoint failed')
        })
        await assert.rejects(async () => await undone, { message: 'the savepoint failed' })
        await transaction.append([record('after')])
      })
      assert.deepEqual(idsOf(await claim(world.store)), ['before', 'after'])
    },
  },
  {
    name: 'records that were appended in a released savepoint commit with the transaction',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const inSavepoint = (id: string) => async (transaction: OutboxTransaction) => {
        await transaction.savepoint?.(() => transaction.append([record(id)]))
      }
      await world.transaction(inSavepoint('kept'))
      const undone = world.transaction(async (transaction) => {
        await inSavepoint('lost')(transaction)
        throw new Error('the transaction failed')
      })
      await assert.rejects(undone, { message: 'the transaction failed' })
      assert.deepEqual(idsOf(await claim(world.store)), ['kept'])
    },
  },
]

export const delayScenarios: readonly OutboxScenario[] = [
  {
    name: 'a delayed record waits until it is due and does not delay other records',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, record('later', { delay: hour }), record('now'))
      const now = await claimOne(world.store)
      assert.equal(now.message.id, 'now')
      await world.store.settle([published(now)])
      const waiting = await world.store.list({ state: 'waiting' }, { limit: 10 })
      assert.deepEqual(idsOf(waiting.records), ['later'])
      await world.advance(hour / 2)
      assert.deepEqual(idsOf(await claim(world.store)), [])
      await world.advance(hour / 2 + 1)
      assert.deepEqual(idsOf(await claim(world.store)), ['later'])
    },
  },
  {
    name: 'an event that was created with a delay, or with an instant, waits until then',
    async run(open) {
      await using world = await open({ retain: false })
      const orderOverdue = defineEvent<string>('order.overdue')
      await commit(world, record('now'))
      const now = await claimOne(world.store)
      await world.store.settle([published(now)])
      // An in-memory store may have a clock of its own.
      const at = new Date(now.createdAt + 3 * hour)
      await world.transaction((transaction) =>
        transaction.append([
          { destination: 'invoices', message: orderOverdue('first', { id: 'delayed', source: '/orders', delay: hour }) },
          { destination: 'invoices', message: orderOverdue('second', { id: 'scheduled', source: '/orders', at }) },
          { destination: 'invoices', message: orderOverdue('third', { id: 'own', source: '/orders', at }), delay: 5 * hour },
        ]),
      )
      assert.deepEqual(idsOf(await claim(world.store)), [])
      const due = ['delayed', 'scheduled', 'own']
      for (const id of due) {
        await world.advance(1.5 * hour)
        const claimed = await claimOne(world.store)
        assert.equal(claimed.message.id, id)
        assert.deepEqual([claimed.message.attributes['delay'], claimed.message.attributes['at']], [undefined, undefined])
        await world.store.settle([published(claimed)])
        assert.deepEqual(idsOf(await claim(world.store)), [])
        await world.advance(hour / 2)
      }
    },
  },
]

export const cancelScenarios: readonly OutboxScenario[] = [
  {
    name: 'cancel removes waiting records and no others',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, record('failed'), record('leased'), record('ready'))
      const claimed = await claim(world.store)
      const [first, , ready] = ['failed', 'leased', 'ready'].map((id) => claimed.find(({ message }) => message.id === id))
      assert.ok(first && ready)
      await world.store.settle([failed(first, hour)])
      await world.store.release([ready])
      await commit(world, record('later', { delay: hour }), record('kept', { delay: hour }))
      const count = await cancel(
        world,
        ...['later', 'failed', 'leased', 'ready', 'unknown'].map((id) => referenceOf(id)),
        referenceOf('kept', { destination: 'stock' }),
        referenceOf('kept', { source: '/stock' }),
      )
      assert.ok(count === undefined || count === 2, `expected 2 cancelled records, got ${count}`)
      const left = (await world.store.list({}, { limit: 10 })).records
      assert.deepEqual(idsOf(left).toSorted(), ['kept', 'leased', 'ready'])
      await world.advance(2 * hour)
      assert.deepEqual(idsOf(await claimAll(world.store)).toSorted(), ['kept', 'leased', 'ready'])
    },
  },
  {
    name: 'cancel takes effect only if its transaction commits',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, record('later', { delay: hour }))
      const refused = new Error('the handler failed')
      await assert.rejects(
        world.transaction(async (transaction) => {
          await transaction.cancel?.([referenceOf('later')])
          throw refused
        }),
        refused,
      )
      await world.advance(hour + 1000)
      assert.deepEqual(idsOf(await claim(world.store)), ['later'])
    },
  },
  {
    name: 'cancel sees records that its own transaction has appended',
    async run(open) {
      await using world = await open({ retain: false })
      await world.transaction(async (transaction) => {
        await transaction.append([record('later', { delay: hour }), record('now')])
        await transaction.cancel?.([referenceOf('later'), referenceOf('now')])
      })
      await world.advance(hour + 1000)
      assert.deepEqual(idsOf(await claimAll(world.store)), ['now'])
    },
  },
  {
    name: 'a delayed record that is due can no longer be cancelled',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, record('due', { delay: hour }))
      await world.advance(hour + 1000)
      const count = await cancel(world, referenceOf('due'))
      assert.ok(count === undefined || count === 0, `expected no cancelled record, got ${count}`)
      assert.deepEqual(idsOf(await claim(world.store)), ['due'])
    },
  },
]

function referenceOf(id: string, { destination = 'orders', source = '/orders' } = {}): OutboxReference {
  return { destination, source, id }
}

async function cancel(world: OutboxWorld, ...references: readonly OutboxReference[]): Promise<number | undefined> {
  let count: number | undefined
  await world.transaction(async (transaction) => {
    assert.ok(transaction.cancel, 'a transaction must have cancel() where the store keeps `delay`')
    count = await transaction.cancel(references)
  })
  return count
}

import { jsonMarshaler, marshal, type Process, rootContext, silentLogger } from '@ackord/core'
import type { ClaimedRecord } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { sqlOutbox, transactional, transactionMiddleware } from '../../src/index.ts'
import { type ClientWorld, onEachClient } from '../support/client-worlds.ts'
import { command, event, handle, openPg } from '../support/world.ts'

const record = (id: string) => ({ destination: 'events', message: marshal(event(id, { partitionkey: 'k' }), jsonMarshaler) })

function testUserSavepoints<Handle>(name: string, open: () => Promise<ClientWorld<Handle>>): void {
  describe.each([
    ['alone', undefined],
    ['in a group', { size: 50, groups: 1 }],
  ] as const)(`savepoints of the user on ${name}, %s`, (_, groupCommit) => {
    const together = ({ database }: ClientWorld<Handle>, process: Process, ids: readonly string[], order: 'none' | 'perKey' = 'none') => {
      const run = transactional(database, {
        inbox: { consumer: 'orders' },
        outbox: { destination: 'events', order },
        transaction: { logger: silentLogger, retries: 0 },
        groupCommit,
      })(process)
      return Promise.allSettled(
        ids.map((id) => {
          const { message } = command(id)
          return run(message, message.context(rootContext()))
        }),
      )
    }
    const stored = (world: ClientWorld<Handle>) => world.column('SELECT id FROM ackord_outbox ORDER BY seq')

    it('undo the events that were appended after them, and no others', async () => {
      await using world = await open()
      const { database } = world
      const outbox = sqlOutbox(database, { logger: silentLogger })
      const results = await together(
        world,
        async (message) => {
          const transaction = database.executor()
          await outbox.append(transaction, [record(`${message.id}-before`)])
          await world.run(transaction, 'SAVEPOINT mine')
          await outbox.append(transaction, [record(`${message.id}-undone`)])
          await world.insert(transaction, `${message.id}-undone`)
          await outbox.append(transaction, [record(`${message.id}-undone-too`)])
          await world.run(transaction, 'ROLLBACK TO SAVEPOINT mine')
          await outbox.append(transaction, [record(`${message.id}-after`)])
          await world.run(transaction, 'RELEASE SAVEPOINT mine')
          await world.insert(transaction, `${message.id}`)
          return [event(`${message.id}-returned`)]
        },
        ['1', '2'],
      )
      expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled'])
      const ofEach = (id: string) => [`${id}-before`, `${id}-after`, `${id}-returned`]
      expect(await world.column('SELECT id FROM orders ORDER BY id')).toEqual(['1', '2'])
      const events = await stored(world)
      expect([...events].sort()).toEqual([...ofEach('1'), ...ofEach('2')].sort())
      for (const id of ['1', '2']) expect(events.filter((event) => String(event).startsWith(`${id}-`))).toEqual(ofEach(id))
    })

    it('end with their message', async () => {
      await using world = await open()
      const { database } = world
      const outbox = sqlOutbox(database, { logger: silentLogger })
      const results = await together(
        world,
        async (message) => {
          const transaction = database.executor()
          if (message.id === '1') await world.run(transaction, 'SAVEPOINT left_open')
          await world.insert(transaction, `${message.id}`)
          await outbox.append(transaction, [record(`e${message.id}`)])
          // The savepoint that the previous message left open no longer exists.
          if (message.id === '2') await world.run(transaction, 'ROLLBACK TO SAVEPOINT left_open')
          return []
        },
        ['1', '2'],
      )
      expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
      expect([await world.column('SELECT id FROM orders'), await stored(world)]).toEqual([['1'], ['e1']])
    })

    it('keep the order of events, as nested transactions do', async () => {
      await using world = await open()
      const { database } = world
      const outbox = sqlOutbox(database, { logger: silentLogger, order: 'perKey' })
      await together(
        world,
        async (message, context) => {
          const { id } = message
          await outbox.append(database.executor(), [record(`${id}-1`)])
          await database.write((transaction) => outbox.append(transaction, [record(`${id}-2`)]), { context })
          await outbox.append(database.executor(), [record(`${id}-3`)])
          await world.run(database.executor(), 'SAVEPOINT mine')
          await outbox.append(database.executor(), [record(`${id}-4`)])
          return [event(`${id}-5`, { partitionkey: 'k' })]
        },
        ['a'],
        'perKey',
      )
      expect(await stored(world)).toEqual(['a-1', 'a-2', 'a-3', 'a-4', 'a-5'])
      await together(
        world,
        async (message, context) => {
          const { id } = message
          await outbox.append(database.executor(), [record(`${id}-1`)])
          await database.write((transaction) => outbox.append(transaction, [record(`${id}-2`)]), { context })
          return [event(`${id}-3`, { partitionkey: 'k' })]
        },
        ['b', 'c'],
        'perKey',
      )
      const events = await stored(world)
      for (const id of ['b', 'c'])
        expect(events.filter((event) => String(event).startsWith(`${id}-`))).toEqual([1, 2, 3].map((n) => `${id}-${n}`))
    })
  })
}

onEachClient(testUserSavepoints)

describe('the hot path', () => {
  it('does not publish records rolled back with a savepoint of the user', async () => {
    await using world = await openPg()
    const { database } = world
    const outbox = sqlOutbox(database, { logger: silentLogger })
    const taken: string[] = []
    outbox.attach?.({
      lease: () => 30_000,
      take: (records: readonly ClaimedRecord[]) => void taken.push(...records.map(({ message }) => `${message.id}`)),
    })
    await handle(transactionMiddleware(database), async () => {
      const transaction = database.executor()
      await outbox.append(transaction, [record('kept')])
      await transaction.query('SAVEPOINT mine')
      await outbox.append(transaction, [record('undone')])
      await transaction.query('/* by hand */ ROLLBACK TO mine')
      await outbox.append(transaction, [record('after')])
      return []
    })
    expect(taken).toEqual(['kept'])
    expect(await world.query('SELECT id FROM ackord_outbox ORDER BY seq')).toEqual([{ id: 'kept' }, { id: 'after' }])
  })
})

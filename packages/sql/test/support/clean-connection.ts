import { jsonMarshaler, marshal, rootContext, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { type Database, sqlOutbox, transactional } from '../../src/index.ts'
import { command, event, handle } from './world.ts'

/** A database whose pool has one connection, so that the next user gets the one that a failure was on. */
export interface OneConnectionWorld<Handle> extends AsyncDisposable {
  readonly database: Database<Handle>
  insert(handle: Handle, id: string): Promise<unknown>
  /** On the pool itself, in no transaction. */
  insertOutside(id: string): Promise<unknown>
  /** Through another connection. */
  query(sql: string): unknown
  /** The ids of all committed orders in alphabetical order, read through another connection. */
  ids(): Promise<unknown[]>
}

type Fail = <Handle>(world: OneConnectionWorld<Handle>) => Promise<unknown>

const failure = new Error('failed')
const settings = { logger: silentLogger, retries: 0 }
const records = [{ destination: 'events', message: marshal(event('e-1'), jsonMarshaler) }] as const

function append<Handle>({ database }: OneConnectionWorld<Handle>, transaction: Handle): Promise<unknown> {
  return sqlOutbox(database, { logger: silentLogger }).append(transaction, records)
}

function deliver<Handle>({ database }: OneConnectionWorld<Handle>, work: (transaction: Handle) => Promise<unknown>): Promise<unknown> {
  const middleware = transactional(database, {
    inbox: { consumer: 'orders' },
    outbox: { destination: 'events' },
    transaction: settings,
  })
  return handle(middleware, async (_, context) => {
    await work(database.executor(context))
    return [event('e-1')]
  })
}

const failures: Readonly<Record<string, Fail>> = {
  'the function throws before its first statement': ({ database }) => database.write(() => Promise.reject(failure), settings),

  'the function throws after a statement': (world) =>
    world.database.write(async (transaction) => {
      await world.insert(transaction, '1')
      throw failure
    }, settings),

  'a statement fails': (world) =>
    world.database.write(async (transaction) => {
      await world.insert(transaction, '1')
      await world.insert(transaction, '1')
    }, settings),

  'the first statement fails': async (world) => {
    await world.query('DROP TABLE orders')
    try {
      await world.database.write((transaction) => world.insert(transaction, '1'), settings)
    } finally {
      await world.query('CREATE TABLE orders (id VARCHAR(200) PRIMARY KEY)')
    }
  },

  'the function throws while statements are running': (world) =>
    world.database.write(async (transaction) => {
      await world.insert(transaction, '1')
      for (const id of ['2', '1', '3']) void world.insert(transaction, id).catch(() => {})
      throw failure
    }, settings),

  'an append is the only statement, and fails': async (world) => {
    await world.query('DROP TABLE ackord_outbox')
    await world.database.write((transaction) => append(world, transaction), settings)
  },

  'an append with transaction settings is the only statement, and fails': async (world) => {
    await world.query('DROP TABLE ackord_outbox')
    await world.database.write((transaction) => append(world, transaction), { ...settings, lockTimeout: 5000, isolation: 'serializable' })
  },

  'an append that is not awaited is the only statement, and fails': async (world) => {
    await world.query('DROP TABLE ackord_outbox')
    await world.database.write(async (transaction) => void append(world, transaction), settings)
  },

  'an append fails after a statement': async (world) => {
    await world.query('DROP TABLE ackord_outbox')
    await world.database.write(async (transaction) => {
      await world.insert(transaction, '1')
      await append(world, transaction)
    }, settings)
  },

  'an append in a nested transaction is the only statement, and fails': async (world) => {
    const { database } = world
    await world.query('DROP TABLE ackord_outbox')
    await database.write((_, context) => database.write((inner) => append(world, inner), { context }), settings)
  },

  'the inbox table is missing': async (world) => {
    await world.query('DROP TABLE ackord_inbox')
    await deliver(world, async () => {})
  },

  'the outbox table is missing': async (world) => {
    await world.query('DROP TABLE ackord_outbox')
    await deliver(world, (transaction) => world.insert(transaction, '1'))
  },

  'messages of a group cannot be stored': async (world) => {
    await world.query('DROP TABLE ackord_outbox')
    const process = transactional(world.database, {
      inbox: { consumer: 'orders' },
      outbox: { destination: 'events' },
      transaction: settings,
      groupCommit: { size: 8, groups: 1 },
    })(async () => [event('e-1')])
    const processing = ['1', '2', '3'].map((id) => {
      const { message } = command(id)
      return process(message, message.context(rootContext()))
    })
    await Promise.allSettled(processing)
    await Promise.all(processing)
  },

  'the signal is aborted': async (world) => {
    const controller = new AbortController()
    const context = rootContext({ signal: controller.signal })
    await world.database.write(
      async (transaction) => {
        await world.insert(transaction, '1')
        controller.abort(failure)
        await world.insert(transaction, '2')
      },
      { ...settings, context },
    )
  },
}

/** Whatever a transaction fails with, the next user of its connection finds no open transaction on it, and none of its writes. */
export function testCleanConnections<Handle>(name: string, open: () => Promise<OneConnectionWorld<Handle>>): void {
  describe(`the next user of a connection of ${name} finds no transaction open on it`, () => {
    it.each(Object.entries(failures))('when %s', async (_, fail) => {
      await using world = await open()
      const [failed] = await Promise.allSettled([fail(world)])
      expect(failed.status).toBe('rejected')
      // The first user after the failure is one who uses the pool without a transaction.
      await world.insertOutside('outside')
      expect(await world.ids()).toEqual(['outside'])
      await world.database.write((transaction) => world.insert(transaction, 'inside'), settings)
      expect(await world.ids()).toEqual(['inside', 'outside'])
    })
  })
}

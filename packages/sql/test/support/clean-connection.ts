import { jsonMarshaler, marshal, rootContext, silentLogger } from '@ackord/core'
import type { SuiteDepth } from '@ackord/testkit/suites'
import { describe, expect, it } from 'vitest'
import { type Database, sqlOutbox, transactional } from '../../src/index.ts'
import { command, event, handle } from './world.ts'

/** A database whose pool has one connection, so that the next user gets the connection on which a failure occurred. */
export interface OneConnectionWorld<Handle> extends AsyncDisposable {
  readonly database: Database<Handle>
  insert(handle: Handle, id: string): Promise<unknown>
  /** Inserts an order on the pool itself, outside any transaction. */
  insertOutside(id: string): Promise<unknown>
  /** Revokes the INSERT privilege of the connection's user on the outbox. Missing if the database has no privileges. */
  refuseAppends?(): Promise<unknown>
  /** Runs a statement on another connection. */
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

  'the inbox table is missing': async (world) => {
    await world.query('DROP TABLE ackord_inbox')
    await deliver(world, async () => {})
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

/** Conditions under which the server rejects an event, and the resulting errors. */
const refusals = {
  'the outbox table is missing': {
    prepare: (world) => world.query('ALTER TABLE ackord_outbox RENAME TO gone'),
    error: /ACKORD_SCHEMA/,
  },

  'the privilege to insert into the outbox is missing': {
    prepare: (world) => world.refuseAppends?.(),
    error: /\b(42501|1142)\b/,
  },

  'the event violates a CHECK constraint': {
    // SQLite can add a CHECK only with a new column, and on MySQL the CHECK of a column must not refer to another column.
    prepare: (world) => world.query('ALTER TABLE ackord_outbox ADD COLUMN checked INTEGER DEFAULT 0 CHECK (checked > 0)'),
    error: /\b(23514|4025|3819|SQLITE_CONSTRAINT_CHECK|CHECK constraint failed)\b/,
  },
} satisfies Record<string, Refusal>

interface Refusal {
  prepare<Handle>(world: OneConnectionWorld<Handle>): unknown
  /** Matches the code and message of the error or of one of its causes. */
  readonly error: RegExp
}

const appends: Readonly<Record<string, Fail>> = {
  'an append is the only statement': (world) => world.database.write((transaction) => append(world, transaction), settings),

  'an append with transaction settings is the only statement': (world) =>
    world.database.write((transaction) => append(world, transaction), { ...settings, lockTimeout: 5000, isolation: 'serializable' }),

  'an append that is not awaited is the only statement': (world) =>
    world.database.write(async (transaction) => void append(world, transaction), settings),

  'an append comes after a statement': (world) =>
    world.database.write(async (transaction) => {
      await world.insert(transaction, '1')
      await append(world, transaction)
    }, settings),

  'an append in a nested transaction is the only statement': (world) => {
    const { database } = world
    return database.write((_, context) => database.write((inner) => append(world, inner), { context }), settings)
  },

  'a handler returns an event': (world) => deliver(world, (transaction) => world.insert(transaction, '1')),

  'handlers of a group return events': async (world) => {
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
}

/** For clients whose database is tested with all combinations on another client: append alone, after a statement, and by the router. */
const basicAppends: readonly string[] = [
  'an append is the only statement',
  'an append comes after a statement',
  'a handler returns an event',
]

interface CleanConnectionOptions {
  /** `basic` tests each refusal with only a few ways to append. Default: 'whole'. */
  readonly depth?: SuiteDepth
  /** Whether the database has user privileges. Default: true. */
  readonly privileges?: boolean
}

/** Tests that after any failure of a transaction, the next user of its connection finds no open transaction and none of its writes. */
export function testCleanConnections<Handle>(
  name: string,
  open: () => Promise<OneConnectionWorld<Handle>>,
  { privileges = true, depth = 'whole' }: CleanConnectionOptions = {},
): void {
  const { 'the privilege to insert into the outbox is missing': missingPrivilege, ...others } = refusals
  const tried = Object.entries(appends).filter(([way]) => depth === 'whole' || basicAppends.includes(way))

  describe(`the next user of a connection of ${name} finds no transaction open on it`, () => {
    it.each(Object.entries(failures))('when %s', async (_, fail) => {
      await using world = await open()
      await expectFailure(fail(world))
      await expectCleanConnection(world)
    })

    describe.each(Object.entries(privileges ? refusals : others))('when %s', (_, { prepare, error }: Refusal) => {
      it.each(tried)('and %s', async (_, fail) => {
        await using world = await open()
        await prepare(world)
        expect(describeCauses(await expectFailure(fail(world)))).toMatch(error)
        await expectCleanConnection(world)
      })
    })
  })
}

async function expectFailure(failing: Promise<unknown>): Promise<unknown> {
  const [failed] = await Promise.allSettled([failing])
  if (failed.status === 'fulfilled') throw new Error('The transaction did not fail.')
  return failed.reason
}

async function expectCleanConnection<Handle>(world: OneConnectionWorld<Handle>): Promise<void> {
  // The first user after the failure uses the pool without a transaction.
  await world.insertOutside('outside')
  expect(await world.ids()).toEqual(['outside'])
  await world.database.write((transaction) => world.insert(transaction, 'inside'), settings)
  expect(await world.ids()).toEqual(['inside', 'outside'])
}

/** The codes and messages of an error and its causes. Prisma stores them in `meta`, Sequelize in `original`. */
function describeCauses(error: unknown): string {
  if (!(error instanceof Error)) return ''
  const { code, errno, meta, message, original } = error as Error & Record<'code' | 'errno' | 'meta' | 'original', unknown>
  return `${code} ${errno} ${JSON.stringify(meta)} ${message}\n${describeCauses(original ?? error.cause)}`
}

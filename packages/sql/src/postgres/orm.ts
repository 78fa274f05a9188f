import { InvalidOptionError } from '@ackord/core'
import { checkFunction, rejectUnknownOptions } from '@ackord/core/internal'
import { CommitUnknownError, TransactionAbortedError, TransactionEndedError } from '../errors.ts'
import type { CallbackDialect } from '../orm/callback-driver.ts'
import { type DrizzleClient, type DrizzleHandle, drizzleDriver } from '../orm/drizzle.ts'
import { type KnexClient, type KnexWire, knexDriver } from '../orm/knex.ts'
import { type KyselyClient, kyselyDriver } from '../orm/kysely.ts'
import { type PrismaClientLike, type PrismaRules, type PrismaTransaction, prismaDriver } from '../orm/prisma.ts'
import { type TypeormDataSource, typeormDriver } from '../orm/typeorm.ts'
import { Database } from '../transaction/database.ts'
import { isNative, nativeParameters, readPgResult } from './client/pg-handle.ts'
import { type PostgresOptions, postgresDialect } from './dialect.ts'
import { isPrismaConflict, refusedCommit, serverError, sqlStateOf } from './errors.ts'
import { withArrayLiterals } from './sql-text.ts'
import { refuseControl } from './transaction-control.ts'

/** The type of a database of `fromDrizzle()`, to pass it around: `DrizzleDatabase<typeof db>`. */
export type DrizzleDatabase<Client extends DrizzleClient> = Database<DrizzleHandle<Client>>

/**
 * A database on Drizzle over a `pg.Pool`. In a transaction every query is tracked, including those of Drizzle's own nested transactions. As with
 * every pool of `pg`, the application must handle its `error` events.
 */
export function fromDrizzle<Client extends DrizzleClient>(db: Client, options: PostgresOptions = {}): DrizzleDatabase<Client> {
  const { schema, names, order, mode, notify, ...unknown } = options
  rejectUnknownOptions('fromDrizzle()', unknown)
  checkFunction('fromDrizzle(db).transaction', db?.transaction)
  if (!isPool(db.$client)) throw new InvalidOptionError('fromDrizzle(db)', 'must be a database of drizzle-orm/node-postgres on a pg.Pool.')
  return new Database({
    schema,
    names,
    order,
    mode,
    notify,
    dialect: postgresDialect,
    driver: drizzleDriver(db, callbackDialect, readPgResult),
  })
}

function isPool(client: unknown): boolean {
  return typeof client === 'object' && client !== null && 'connect' in client && 'totalCount' in client
}

/** The type of a database of `fromKnex()`, to pass it around: `KnexDatabase<Knex>`. */
export type KnexDatabase<Client extends KnexClient> = Database<Client>

/**
 * A database on Knex, with its client `pg`. Adapters get a `Knex`; in a transaction every query is tracked, except for streams, which must be
 * finished before the handler returns. Hooks such as `postProcessResponse` do not see the library's own statements.
 */
export function fromKnex<Client extends KnexClient>(knex: Client, options: PostgresOptions = {}): KnexDatabase<Client> {
  const { schema, names, order, mode, notify, ...unknown } = options
  rejectUnknownOptions('fromKnex()', unknown)
  if ((knex?.client as { readonly driverName?: unknown } | undefined)?.driverName === 'pgnative')
    throw new InvalidOptionError(
      'fromKnex(knex)',
      "must have the client 'pg': 'pgnative' does not transfer the bytes of a payload unchanged.",
    )
  return new Database({ schema, names, order, mode, notify, dialect: postgresDialect, driver: knexDriver(knex, callbackDialect, wire) })
}

const wire: KnexWire = {
  // Knex would read a question mark as a parameter.
  text: (sql) => sql.replaceAll('?', '\\?'),
  read: readPgResult,
}

/** The type of a database of `fromKysely()`, to pass it around: `KyselyDatabase<Kysely<Tables>>`. */
export type KyselyDatabase<Client extends KyselyClient> = Database<Client>

/**
 * A database on Kysely, with a dialect for PostgreSQL. Adapters get a `Kysely<DB>`; in a transaction every query is tracked. Plugins do not see the
 * library's own statements. The application must handle the `error` events of the `pg.Pool` it creates for Kysely, and of its clients.
 */
export function fromKysely<Client extends KyselyClient>(db: Client, options: PostgresOptions = {}): KyselyDatabase<Client> {
  const { schema, names, order, mode, notify, ...unknown } = options
  rejectUnknownOptions('fromKysely()', unknown)
  return new Database({ schema, names, order, mode, notify, dialect: postgresDialect, driver: kyselyDriver(db, callbackDialect) })
}

/** The type of a database of `fromPrisma()`, to pass it around: `PrismaDatabase<PrismaClient>`. */
export type PrismaDatabase<Client extends PrismaClientLike> = Database<PrismaTransaction<Client>>

/**
 * A database on Prisma 7, with a driver adapter for PostgreSQL. Adapters get the transaction client; in a transaction every operation is tracked.
 * Prisma's own transaction limits (2 s to begin, 5 s in total) are lifted: those of the router apply.
 */
export function fromPrisma<Client extends PrismaClientLike>(prisma: Client, options: PostgresOptions = {}): PrismaDatabase<Client> {
  const { schema, names, order, mode, notify, ...unknown } = options
  rejectUnknownOptions('fromPrisma()', unknown)
  const dialect = { ...postgresDialect, isConflict: isPrismaConflict }
  return new Database({ schema, names, order, mode, notify, dialect, driver: prismaDriver(prisma, callbackDialect, rules) })
}

/** Prisma cannot read the result type of a lock function. Creating a function returns nothing, whatever its body contains. */
const returnsRows = /^\s*(?:select\b(?!\s+pg_advisory)|with\b|(?:insert|update|delete)\b.*\breturning\b)/is

const rules: PrismaRules = { returnsRows: (sql) => returnsRows.test(sql), values: withArrayLiterals, serverError }

/** The type of a database of `fromTypeorm()`, to pass it around: `TypeormDatabase<DataSource>`. */
export type TypeormDatabase<Source extends TypeormDataSource> = Database<Source['manager']>

/**
 * A database on TypeORM, with its driver `postgres`. Adapters get an `EntityManager`; in a transaction every query is tracked, except for
 * streams, which must be finished before the handler returns.
 */
export function fromTypeorm<Source extends TypeormDataSource>(dataSource: Source, options: PostgresOptions = {}): TypeormDatabase<Source> {
  const { schema, names, order, mode, notify, ...unknown } = options
  rejectUnknownOptions('fromTypeorm()', unknown)
  return new Database({ schema, names, order, mode, notify, dialect: postgresDialect, driver: typeormDriver(dataSource, dialect) })
}

/** PostgreSQL guards the transaction itself: after an error it rejects every statement until the transaction or a savepoint is rolled back. */
export const callbackDialect: CallbackDialect = {
  refuseControl,
  refusedCommit,
  undoesAlone: false,
  ddlCommits: false,
  isolationOf: () => undefined,
  split: (script) => [script],
  adapt: (run) => run,
  guard: ({ send }) => ({
    async begin(settings) {
      for (const setting of settings) await send(setting)
    },
    run: (_, start) => start(() => {}),
    failTransaction() {},
    restore() {},
    async finish() {
      try {
        // Fails in an aborted transaction, and outside of one.
        await send('SAVEPOINT ackord_last')
      } catch (error) {
        if (sqlStateOf(error) === '25P02') throw new TransactionAbortedError()
        throw sqlStateOf(error) === '25P01' ? new CommitUnknownError(new TransactionEndedError()) : error
      }
    },
    leave: async () => {},
  }),
}

/** TypeORM uses the native client of pg automatically if the package pg-native is installed. */
const dialect: CallbackDialect = {
  ...callbackDialect,
  adapt: (run) => (handle, sql, parameters) => run(handle, sql, isNative(connectionOf(handle)) ? nativeParameters(parameters) : parameters),
}

/** The query runner of an `EntityManager` in a transaction. */
function connectionOf(manager: unknown): unknown {
  return (manager as { readonly queryRunner?: { readonly databaseConnection?: unknown } }).queryRunner?.databaseConnection
}

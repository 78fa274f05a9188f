import { InvalidOptionError } from '@ackord/core'
import { checkFunction, rejectUnknownOptions } from '@ackord/core/internal'
import type { FromOptions } from '../contract/database-options.ts'
import type { CallbackDialect } from '../orm/callback-driver.ts'
import { type DrizzleClient, type DrizzleHandle, drizzleDriver } from '../orm/drizzle.ts'
import { type KnexClient, type KnexWire, knexDriver } from '../orm/knex.ts'
import { type KyselyClient, kyselyDriver } from '../orm/kysely.ts'
import { type PrismaClientLike, type PrismaRules, type PrismaTransaction, prismaDriver } from '../orm/prisma.ts'
import { type TypeormDataSource, typeormDriver } from '../orm/typeorm.ts'
import { Database } from '../transaction/database.ts'
import { readMysql2Answer } from './client/from-mysql2.ts'
import { explainSize, sizeOf, toWire } from './client/wire.ts'
import { mysqlDialect } from './dialect.ts'
import { errorNumberOf, isPrismaConflict, refusedCommit, serverError } from './errors.ts'
import { splitScript } from './sql-text.ts'
import { checkAutocommit, isolationOf, isRead, refuseControl } from './transaction-control.ts'
import { transactionGuard } from './transaction-guard.ts'

/** The type of a database of `fromDrizzle()`, to pass it around: `DrizzleDatabase<typeof db>`. */
export type DrizzleDatabase<Client extends DrizzleClient> = Database<DrizzleHandle<Client>>

/**
 * A database on Drizzle over a pool of `mysql2`. In a transaction every query is tracked, including those of Drizzle's own nested transactions,
 * except for iterators, which must be finished before the handler returns.
 */
export function fromDrizzle<Client extends DrizzleClient>(db: Client, options: FromOptions = {}): DrizzleDatabase<Client> {
  const { schema, names, order, ...unknown } = options
  rejectUnknownOptions('fromDrizzle()', unknown)
  checkFunction('fromDrizzle(db).transaction', db?.transaction)
  if (!isPool(db.$client)) throw new InvalidOptionError('fromDrizzle(db)', 'must be a database of drizzle-orm/mysql2 on a pool of mysql2.')
  return new Database({
    schema,
    names,
    order,
    dialect: mysqlDialect,
    driver: drizzleDriver(db, callbackDialect('fromDrizzle()'), readAnswer),
  })
}

/** The answer and its columns. */
function readAnswer(result: unknown): ReturnType<typeof readMysql2Answer> {
  return readMysql2Answer((result as [unknown])[0])
}

function isPool(client: unknown): boolean {
  return typeof client === 'object' && client !== null && 'getConnection' in client && 'execute' in client
}

/** The type of a database of `fromKnex()`, to pass it around: `KnexDatabase<Knex>`. */
export type KnexDatabase<Client extends KnexClient> = Database<Client>

/**
 * A database on Knex, with its client `mysql2`. Adapters get a `Knex`; in a transaction every query is tracked, except for streams, which must be
 * finished before the handler returns. Hooks such as `postProcessResponse` do not see the library's own statements.
 */
export function fromKnex<Client extends KnexClient>(knex: Client, options: FromOptions = {}): KnexDatabase<Client> {
  const { schema, names, order, ...unknown } = options
  rejectUnknownOptions('fromKnex()', unknown)
  return new Database({ schema, names, order, dialect: mysqlDialect, driver: knexDriver(knex, callbackDialect('fromKnex()'), wire) })
}

const wire: KnexWire = {
  text: (sql) => sql,
  // The answer and its columns.
  read: (response) => readMysql2Answer((response as [unknown])[0]),
}

/** The type of a database of `fromKysely()`, to pass it around: `KyselyDatabase<Kysely<Tables>>`. */
export type KyselyDatabase<Client extends KyselyClient> = Database<Client>

/**
 * A database on Kysely, with its `MysqlDialect` on a pool of `mysql2`. Adapters get a `Kysely<DB>`; in a transaction every query is tracked. Plugins
 * do not see the library's own statements.
 */
export function fromKysely<Client extends KyselyClient>(db: Client, options: FromOptions = {}): KyselyDatabase<Client> {
  const { schema, names, order, ...unknown } = options
  rejectUnknownOptions('fromKysely()', unknown)
  return new Database({ schema, names, order, dialect: mysqlDialect, driver: kyselyDriver(db, callbackDialect('fromKysely()')) })
}

/** The type of a database of `fromPrisma()`, to pass it around: `PrismaDatabase<PrismaClient>`. */
export type PrismaDatabase<Client extends PrismaClientLike> = Database<PrismaTransaction<Client>>

/**
 * A database on Prisma 7, with `@prisma/adapter-mariadb`. Adapters get the transaction client; in a transaction every operation is tracked. Prisma's
 * own transaction limits (2 s to begin, 5 s in total) are lifted: those of the router apply.
 */
export function fromPrisma<Client extends PrismaClientLike>(prisma: Client, options: FromOptions = {}): PrismaDatabase<Client> {
  const { schema, names, order, ...unknown } = options
  rejectUnknownOptions('fromPrisma()', unknown)
  const dialect = { ...mysqlDialect, isConflict: isPrismaConflict }
  return new Database({ schema, names, order, dialect, driver: prismaDriver(prisma, callbackDialect('fromPrisma()'), rules) })
}

const rules: PrismaRules = { returnsRows: isRead, values: (parameters) => parameters, serverError }

/** The type of a database of `fromTypeorm()`, to pass it around: `TypeormDatabase<DataSource>`. */
export type TypeormDatabase<Source extends TypeormDataSource> = Database<Source['manager']>

/**
 * A database on TypeORM, with its drivers `mysql` and `mariadb` on `mysql2`. Adapters get an `EntityManager`; in a transaction every query is
 * tracked, except for streams, which must be finished before the handler returns.
 */
export function fromTypeorm<Source extends TypeormDataSource>(dataSource: Source, options: FromOptions = {}): TypeormDatabase<Source> {
  const { schema, names, order, ...unknown } = options
  rejectUnknownOptions('fromTypeorm()', unknown)
  return new Database({ schema, names, order, dialect: mysqlDialect, driver: typeormDriver(dataSource, callbackDialect('fromTypeorm()')) })
}

/** For one adapter, with its name. */
function callbackDialect(adapter: string): CallbackDialect {
  let checked = false
  return {
    refuseControl,
    refusedCommit,
    undoesAlone: true,
    ddlCommits: true,
    isolationOf,
    split: splitScript,
    adapt: (run) =>
      async function runWithBytes(handle, sql, parameters) {
        const values = parameters.map(toWire)
        try {
          return await run(handle, sql, values)
        } catch (error) {
          throw explainPrepared(adapter, explainSize(error, sizeOf(sql, values)))
        }
      },
    guard(options) {
      const guard = transactionGuard(options)
      return {
        ...guard,
        async begin(settings) {
          // Once is enough: all connections of a pool are created alike.
          if (!checked) await checkAutocommit(options.send, adapter)
          checked = true
          await guard.begin(settings)
        },
      }
    },
  }
}

/** MariaDB can prepare a SAVEPOINT, MySQL cannot. Of the supported ORMs only Prisma prepares the library's statements. */
function explainPrepared(adapter: string, error: unknown): unknown {
  // This command is not supported in the prepared statement protocol yet.
  if (errorNumberOf(error) !== 1295) return error
  return new InvalidOptionError(
    adapter,
    'was given a client that prepares every statement, but this server cannot prepare a SAVEPOINT. Create PrismaMariaDb with the option useTextProtocol: true.',
    { cause: error },
  )
}

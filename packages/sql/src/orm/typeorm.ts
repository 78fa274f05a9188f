import { checkFunction } from '@ackord/core/internal'
import type { Driver, StatementResult } from '../contract/driver.ts'
import { type CallbackDialect, callbackDriver, type RunTracked } from './callback-driver.ts'

/** The part of a `DataSource` that is used. */
export interface TypeormDataSource {
  readonly manager: object
  // biome-ignore lint/suspicious/noExplicitAny: the type of its manager is found by inference.
  transaction(work: (manager: any) => Promise<any>): Promise<unknown>
  createQueryRunner(): unknown
  // biome-ignore lint/suspicious/noExplicitAny: the query runner is its own.
  createEntityManager(queryRunner?: any): unknown
}

/** A driver on TypeORM. */
export function typeormDriver<Source extends TypeormDataSource>(dataSource: Source, dialect: CallbackDialect): Driver<Source['manager']> {
  checkFunction('fromTypeorm(dataSource).transaction', dataSource?.transaction)
  checkFunction('fromTypeorm(dataSource).createEntityManager', dataSource.createEntityManager)
  const driver = callbackDriver<TypeormManager>(
    {
      // The run-time shape, whatever the types say.
      root: dataSource.manager as TypeormManager,
      begin(work, isolation) {
        if (isolation === undefined) return dataSource.transaction(work) as ReturnType<typeof work>
        return (dataSource as unknown as IsolatedSource).transaction(isolation.toUpperCase(), work) as ReturnType<typeof work>
      },
      run: (manager, sql, parameters) => run(dataSource, manager, sql, parameters),
      track: (manager, run) => dataSource.createEntityManager(trackedRunner(manager, run)) as TypeormManager,
      inTransaction: ({ queryRunner }) => queryRunner?.isTransactionActive === true && !queryRunner.isReleased,
    },
    dialect,
  )
  return driver as unknown as Driver<Source['manager']>
}

/** The other overload of `transaction`; a structural type with both would not match. */
interface IsolatedSource {
  transaction(isolation: string, work: (manager: TypeormManager) => Promise<unknown>): Promise<unknown>
}

/** The part of an `EntityManager` that is used: outside of transactions it has no query runner. */
interface TypeormManager {
  readonly queryRunner?: TypeormRunner | undefined
}

interface TypeormRunner {
  readonly isTransactionActive: boolean
  readonly isReleased: boolean
  /** With `true` the result is structured. */
  query(sql: string, parameters?: unknown[], structured?: boolean): Promise<unknown>
  release(): Promise<void>
}

async function run(
  dataSource: TypeormDataSource,
  { queryRunner }: TypeormManager,
  sql: string,
  parameters: readonly unknown[],
): Promise<StatementResult> {
  const runner = queryRunner ?? (dataSource.createQueryRunner() as TypeormRunner)
  try {
    const result = await runner.query(sql, parameters.length === 0 ? undefined : [...parameters], true)
    const { records, affected } = result as { readonly records?: StatementResult['rows']; readonly affected?: number | null }
    // The native client of pg reports NaN for statements that count nothing.
    return { rows: records ?? [], count: affected || 0 }
  } finally {
    if (runner !== queryRunner) await runner.release()
  }
}

/** The same query runner with every query tracked: everything that TypeORM sends goes through its `query`, including savepoints. */
function trackedRunner({ queryRunner }: TypeormManager, run: RunTracked): TypeormRunner {
  // A transaction always has one.
  const runner = queryRunner as TypeormRunner
  return new Proxy(runner, {
    get(target, name, receiver) {
      // After the end the tracker refuses queries, with an error that says why.
      if (name === 'isReleased') return false
      if (name !== 'query') return Reflect.get(target, name, receiver)
      const query: TypeormRunner['query'] = (sql, ...more) => run(sql, () => target.query(sql, ...more))
      return query
    },
  })
}

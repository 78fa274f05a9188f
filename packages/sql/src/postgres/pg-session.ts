import { AckordError } from '@ackord/core'
import type { Session, Statement, StatementResult } from '../driver.ts'
import { CommitUnknownError, TransactionAbortedError } from '../errors.ts'
import { Lane } from '../lane.ts'
import type { OpenSession } from '../open-session.ts'
import { canFly, countOf, type FlightOutcome, fly, nameOf, type PgFlyer } from './pg-flight.ts'
import { trackedHandle } from './pg-handle.ts'
import { endsConnection, refusedCommit, sqlStateOf } from './sql-state.ts'

export interface PgResult {
  readonly rows: unknown[]
  readonly rowCount: number | null
  readonly command: string
}

export interface PgQueryable {
  query(text: string, values?: unknown[]): Promise<PgResult>
  query(statement: { readonly name: string; readonly text: string; readonly values: unknown[] }): Promise<PgResult>
}

export interface PgClient extends PgQueryable {
  release(error?: Error | boolean): void
  on(event: 'error', listener: (error: Error) => void): unknown
  removeListener(event: 'error', listener: (error: Error) => void): unknown
  getTransactionStatus?(): string | null
}

export interface PgSessionOptions {
  /** Whether statements may be prepared under a name. */
  readonly named: boolean
}

interface Waiting {
  readonly statement: Statement
  readonly explain: (error: unknown) => unknown
}

const begin: Statement = { sql: 'BEGIN', prepare: true }
const commitment: Statement = { sql: 'COMMIT', prepare: true }

const nothing: readonly Waiting[] = []

/** A transaction on a client. The first statement takes BEGIN along, COMMIT takes along what may wait for it. */
export function openSession(client: PgClient, settings: readonly string[], options: PgSessionOptions): OpenSession<PgQueryable> {
  const lane = new Lane()
  const flies = canFly(client as PgClient & PgFlyer)
  const opening = openingOf(settings, breakOff)
  let waiting = opening
  let begun = false
  let broken: Error | undefined

  function breakOff(error: unknown): void {
    broken ??= error instanceof Error ? error : new Error(String(error))
  }

  // Promises are chained by hand here: this runs several times per message.

  /** Sends what waits, then these. Gives the command tag of the last. */
  function send(statements: readonly Statement[]): Promise<string | undefined> {
    const before = waiting
    waiting = nothing
    begun = true
    return sendTogether(client, withWaiting(before, statements), options).then(({ tags, failure }) => {
      if (failure !== undefined) throw before[tags.length]?.explain(failure.error) ?? failure.error
      return tags.at(-1)
    })
  }

  function afterWaiting<T>(start: () => Promise<T>): Promise<T> {
    return waiting === nothing ? start() : send([]).then(start)
  }

  const tracked = { client, lane, hasWaiting: () => waiting !== nothing, afterWaiting, callsBack: flies }

  const session: Session<PgQueryable> = {
    run: (sql, parameters = []) => lane.run(() => afterWaiting(() => runOn(client, sql, parameters))),
    change: (statement) => lane.run(() => send([statement]).then(countOf)),
    changeLater(statement, explain) {
      waiting = [...waiting, { statement, explain }]
      return undefined
    },
    sendsTogether: flies,
    tellsRows: flies,
    async script(sql) {
      await lane.run(() => afterWaiting(() => client.query(sql)))
    },
    track: (tracker) => trackedHandle(tracked, tracker),
  }

  async function commit(): Promise<void> {
    // The server rolls back what is open on a connection that ends, and COMMIT was not sent yet.
    if (endsConnection(lane.failure)) breakOff(lane.failure)
    if (broken !== undefined) throw broken
    // Nothing was done in it.
    if (!begun && waiting === opening) return
    // Known without a round trip, by newer versions of pg.
    if (begun && client.getTransactionStatus?.() === 'I') {
      const error = new CommitUnknownError(endedByItself())
      breakOff(error)
      throw error
    }
    const before = waiting
    const { tags, failure } = await sendTogether(client, withWaiting(before, [commitment]), options)
    if (failure === undefined) {
      if (tags.at(-1) !== 'COMMIT') throw new TransactionAbortedError()
      return
    }
    const { error } = failure
    const failed = before[tags.length]
    if (failed !== undefined && sqlStateOf(error) !== undefined) {
      // The server did not come to COMMIT.
      if (endsConnection(error)) breakOff(error)
      else await rollBack()
      throw sqlStateOf(error) === '25P02' ? new TransactionAbortedError() : failed.explain(error)
    }
    if (refusedCommit(error)) throw error
    breakOff(error)
    throw new CommitUnknownError(error)
  }

  async function rollBack(): Promise<void> {
    waiting = nothing
    if (endsConnection(lane.failure)) breakOff(lane.failure)
    if (!begun) return
    await lane.run(() => client.query('ROLLBACK')).catch(breakOff)
  }

  return { session, commit, rollBack, breakOff, broken: () => broken }
}

function openingOf(settings: readonly string[], breakOff: (error: unknown) => void): readonly Waiting[] {
  const explain = (error: unknown) => {
    breakOff(error)
    return error
  }
  if (settings.length === 0) return [{ statement: begin, explain }]
  return [begin, ...settings.map((sql) => ({ sql, prepare: true }))].map((statement) => ({ statement, explain }))
}

function withWaiting(waiting: readonly Waiting[], statements: readonly Statement[]): readonly Statement[] {
  return waiting === nothing ? statements : [...waiting.map(({ statement }) => statement), ...statements]
}

/** One round trip where the client can, else one for each. Never rejects. */
function sendTogether(client: PgClient, statements: readonly Statement[], options: PgSessionOptions): Promise<FlightOutcome> {
  const flyer = client as PgClient & PgFlyer
  // A single statement without parameters, BEGIN or COMMIT, is cheaper as a plain one.
  const gains = statements.length > 1 || statements[0]?.parameters !== undefined
  return gains && canFly(flyer) ? fly(flyer, statements, options) : sendOneByOne(client, statements)
}

async function sendOneByOne(client: PgClient, statements: readonly Statement[]): Promise<FlightOutcome> {
  const tags: string[] = []
  for (const { sql, parameters = [] } of statements) {
    try {
      const { command, rowCount } = await client.query(sql, parameters.length === 0 ? undefined : [...parameters])
      tags.push(rowCount === null ? command : `${command} ${rowCount}`)
    } catch (error) {
      return { tags, failure: { error } }
    }
  }
  return { tags }
}

export async function runOn(
  handle: PgQueryable,
  sql: string,
  parameters: readonly unknown[],
  { prepare }: { readonly prepare: boolean } = { prepare: false },
): Promise<StatementResult> {
  // pg remembers by itself what is prepared; other names than ours, which it does not know of.
  const asked = prepare
    ? handle.query({ name: `${nameOf(sql)}_pg`, text: sql, values: [...parameters] })
    : handle.query(sql, [...parameters])
  const { rows, rowCount } = await asked
  // Rows are objects: none of our statements asks for arrays.
  return { rows: rows as StatementResult['rows'], count: rowCount ?? 0 }
}

function endedByItself(): AckordError {
  return new AckordError('ACKORD_SCOPE_ENDED', 'A statement of the handler had ended the transaction before.')
}

import { AckordError, isAckordError } from '@ackord/core'
import type { OpenSession, Session, Statement, StatementResult } from '../../contract/driver.ts'
import type { QueryTracker } from '../../contract/query-tracker.ts'
import { Lane } from '../../contract/statement-queue.ts'
import { CommitUnknownError, TransactionAbortedError, TransactionEndedError } from '../../errors.ts'
import { endsConnection, refusedCommit, sqlStateOf } from '../errors.ts'
import { trackedHandle } from './pg-handle.ts'
import { canFly, type FlightOutcome, fly, nameOf, type PgFlyer, rowsInTag } from './pg-pipeline.ts'
import { countOf, isNative, nativeParameters } from './pg-result.ts'
import { PgTransactionWatch } from './pg-transaction-watch.ts'

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
  /** Whether nothing runs on it. Absent on the native client. */
  readonly readyForQuery?: boolean | undefined
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
  const watch = PgTransactionWatch.of(client as PgClient & PgFlyer)
  const trackers: QueryTracker[] = []
  let usesSavepoints = false
  let ended: TransactionEndedError | undefined
  const watched = {
    usesSavepoints: () => usesSavepoints || trackers.some((tracker) => tracker.usesSavepoints),
    onEnded() {
      ended ??= new TransactionEndedError()
    },
  }
  let waiting = opening
  let begun = false
  let broken: Error | undefined
  /** Cursors and streams of the handler. */
  const submitted: unknown[] = []

  function breakOff(error: unknown): void {
    broken ??= error instanceof Error ? error : new Error(String(error))
  }

  /** Whether a cursor or stream was left open: whatever is sent now would wait for it for ever. */
  function isOccupied(): boolean {
    return client.readyForQuery === false && submitted.some(isOpen)
  }

  /** Why the connection cannot be used any more, if it cannot: a statement might never be answered. */
  function refusal(): Error | undefined {
    if (broken === undefined && isDriverError(lane.failure) && !recovers(client)) breakOff(lane.failure)
    return broken
  }

  function checkUsable(): void {
    const error = refusal()
    if (error !== undefined) throw error
  }

  // Promises are chained by hand here: this runs several times per message.

  /** Sends what waits, then these. Gives the command tag of the last. */
  function send(statements: readonly Statement[]): Promise<string | undefined> {
    if (ended !== undefined) return Promise.reject(ended)
    const before = waiting
    const isFirst = !begun
    waiting = nothing
    begun = true
    return sendTogether(client, withWaiting(before, statements), options).then(({ tags, failure }) => {
      if (isFirst && tags.length > 0) watch?.start(watched)
      if (failure !== undefined) throw before[tags.length]?.explain(failure.error) ?? failure.error
      return tags.at(-1)
    })
  }

  function afterWaiting<T>(start: () => Promise<T>): Promise<T> {
    const error = ended ?? refusal()
    if (error !== undefined) return Promise.reject(error)
    return waiting === nothing ? start() : send([]).then(start)
  }

  const tracked = {
    client,
    lane,
    hasWaiting: () => waiting !== nothing,
    hasEnded: () => ended !== undefined,
    afterWaiting,
    callsBack: flies,
    checkUsable,
    onSubmit: (given: unknown) => void submitted.push(given),
  }

  const session: Session<PgQueryable> = {
    run: (sql, parameters = []) => lane.run(() => afterWaiting(() => runOn(client, sql, parameters))),
    change: (statement) =>
      lane.run(() => {
        const error = refusal()
        return error === undefined ? send([statement]).then(rowsInTag) : Promise.reject(error)
      }),
    changeLater(statement, explain) {
      waiting = [...waiting, { statement, explain }]
      return undefined
    },
    sendsTogether: flies,
    tellsRows: flies,
    ended: () => ended,
    async script(sql) {
      usesSavepoints = true
      await lane.run(() => afterWaiting(() => client.query(sql)))
    },
    track(tracker) {
      trackers.push(tracker)
      return trackedHandle(tracked, tracker)
    },
  }

  async function commit(): Promise<void> {
    // The server rolls back what is open on a connection that ends, and COMMIT was not sent yet.
    if (endsConnection(lane.failure)) breakOff(lane.failure)
    checkUsable()
    if (isOccupied()) {
      const error = leftOpen()
      breakOff(error)
      throw error
    }
    // Nothing was done in it.
    if (!begun && waiting === opening) return
    watch?.stop()
    if (begun && client.getTransactionStatus?.() === 'I') watched.onEnded()
    if (ended !== undefined) {
      const error = new CommitUnknownError(ended)
      breakOff(error)
      throw error
    }
    const before = waiting
    // BEGIN may be among them: if a statement after it fails, the transaction is open and aborted, and must be rolled back.
    begun = true
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
    watch?.stop()
    waiting = nothing
    // A driver's own error, such as a time-out, does not say that the statement has ended: ROLLBACK might wait for it for ever.
    if (endsConnection(lane.failure) || isDriverError(lane.failure)) breakOff(lane.failure)
    if (isOccupied()) breakOff(leftOpen())
    // The server rolls back what is open on a connection that ends.
    if (!begun || broken !== undefined) return
    await lane.run(() => client.query('ROLLBACK')).catch(breakOff)
  }

  return { session, commit, rollBack, breakOff, broken: () => broken }
}

/** Whether the driver failed, and not the server: the connection may wait for an answer that never comes. */
function isDriverError(error: unknown): boolean {
  return error !== undefined && sqlStateOf(error) === undefined && !isAckordError(error)
}

/** Whether pg goes on after a parameter that it cannot serialise. Before 8.22 it waits for ever for the answer to what it never sent. */
function recovers(client: PgClient): boolean {
  const { connection } = client as PgClient & PgFlyer
  return connection !== undefined && 'submittedNamedStatements' in connection
}

/** A cursor of pg-cursor, and the one in a stream of pg-query-stream, knows that it is closed before the server has confirmed it. */
function isOpen(submitted: unknown): boolean {
  const { state, cursor } = submitted as { readonly state?: unknown; readonly cursor?: { readonly state?: unknown } }
  return (state ?? cursor?.state) !== 'done'
}

function leftOpen(): AckordError {
  return new AckordError(
    'ACKORD_TRANSACTION_ABORTED',
    'A cursor or stream was left open when its transaction ended, and the transaction was rolled back. Close it in the handler, in a finally block.',
  )
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
      const { command, rowCount } = await client.query(sql, parameters.length === 0 ? undefined : valuesFor(client, parameters))
      const count = countOf(rowCount)
      tags.push(count === undefined ? command : `${command} ${count}`)
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
    ? handle.query({ name: `${nameOf(sql)}_pg`, text: sql, values: valuesFor(handle, parameters) })
    : handle.query(sql, valuesFor(handle, parameters))
  const { rows, rowCount } = await asked
  // Rows are objects: none of our statements asks for arrays.
  return { rows: rows as StatementResult['rows'], count: countOf(rowCount) ?? 0 }
}

function valuesFor(handle: PgQueryable, parameters: readonly unknown[]): unknown[] {
  return isNative(handle) ? nativeParameters(parameters) : [...parameters]
}

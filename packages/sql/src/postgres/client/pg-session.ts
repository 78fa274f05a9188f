import { AckordError, isAckordError } from '@ackord/core'
import type { OpenSession, Session, Statement, StatementResult } from '../../contract/driver.ts'
import type { QueryTracker } from '../../contract/query-tracker.ts'
import { StatementQueue } from '../../contract/statement-queue.ts'
import { CommitUnknownError, TransactionAbortedError, TransactionEndedError } from '../../errors.ts'
import { endsConnection, refusedCommit, sqlStateOf } from '../errors.ts'
import { countOf, isNative, nativeParameters, type PgQueryable, trackedHandle } from './pg-handle.ts'
import { canPipeline, nameOf, type PipelineClient, type PipelineOutcome, rowsInTag, sendPipelined } from './pg-pipeline.ts'
import { PgTransactionWatch } from './pg-transaction-watch.ts'

export interface PgClient extends PgQueryable {
  release(error?: Error | boolean): void
  on(event: 'error', listener: (error: Error) => void): unknown
  removeListener(event: 'error', listener: (error: Error) => void): unknown
  getTransactionStatus?(): string | null
  /** Whether it is idle. Absent on the native client. */
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

/** A transaction on a client. BEGIN is sent together with the first statement, deferred statements together with COMMIT. */
export function openSession(client: PgClient, settings: readonly string[], options: PgSessionOptions): OpenSession<PgQueryable> {
  const queue = new StatementQueue()
  const pipelines = canPipeline(client as PgClient & PipelineClient)
  const opening = openingOf(settings, markBroken)
  const watch = PgTransactionWatch.of(client as PgClient & PipelineClient)
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

  function markBroken(error: unknown): void {
    broken ??= error instanceof Error ? error : new Error(String(error))
  }

  /** Whether a cursor or stream was left open: any further statement would wait for it forever. */
  function isOccupied(): boolean {
    return client.readyForQuery === false && submitted.some(isOpen)
  }

  /** The reason why the connection can no longer be used, if any: a statement might never be answered. */
  function refusal(): Error | undefined {
    if (broken === undefined && isDriverError(queue.failure) && !recovers(client)) markBroken(queue.failure)
    return broken
  }

  function checkUsable(): void {
    const error = refusal()
    if (error !== undefined) throw error
  }

  // No async/await below, on the hot path: saves promises several times per message.

  /** Sends the waiting statements, then these. Resolves to the command tag of the last. */
  function send(statements: readonly Statement[]): Promise<string | undefined> {
    if (ended !== undefined) return Promise.reject(ended)
    const before = waiting
    const isFirst = !begun
    waiting = nothing
    begun = true
    return sendInOneRoundTrip(client, withWaiting(before, statements), options).then(({ tags, failure }) => {
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
    queue,
    hasWaiting: () => waiting !== nothing,
    hasEnded: () => ended !== undefined,
    afterWaiting,
    callsBack: pipelines,
    checkUsable,
    onSubmit: (given: unknown) => void submitted.push(given),
  }

  const session: Session<PgQueryable> = {
    run: (sql, parameters = []) => queue.run(() => afterWaiting(() => runOn(client, sql, parameters))),
    change: (statement) =>
      queue.run(() => {
        const error = refusal()
        return error === undefined ? send([statement]).then(rowsInTag) : Promise.reject(error)
      }),
    deferStatement(statement, explain) {
      waiting = [...waiting, { statement, explain }]
      return undefined
    },
    supportsPipelining: pipelines,
    reportsRows: pipelines,
    ended: () => ended,
    async script(sql) {
      usesSavepoints = true
      await queue.run(() => afterWaiting(() => client.query(sql)))
    },
    track(tracker) {
      trackers.push(tracker)
      return trackedHandle(tracked, tracker)
    },
  }

  async function commit(): Promise<void> {
    // COMMIT was not sent yet, and the server rolls back the open transaction of a closed connection.
    if (endsConnection(queue.failure)) markBroken(queue.failure)
    checkUsable()
    if (isOccupied()) {
      const error = leftOpen()
      markBroken(error)
      throw error
    }
    // No statement was sent in it.
    if (!begun && waiting === opening) return
    watch?.stop()
    if (begun && client.getTransactionStatus?.() === 'I') watched.onEnded()
    if (ended !== undefined) {
      const error = new CommitUnknownError(ended)
      markBroken(error)
      throw error
    }
    const before = waiting
    // BEGIN may be among them: if a later statement fails, the transaction is open and aborted, and must be rolled back.
    begun = true
    const { tags, failure } = await sendInOneRoundTrip(client, withWaiting(before, [commitment]), options)
    if (failure === undefined) {
      if (tags.at(-1) !== 'COMMIT') throw new TransactionAbortedError()
      return
    }
    const { error } = failure
    const failed = before[tags.length]
    if (failed !== undefined && sqlStateOf(error) !== undefined) {
      // The server did not reach COMMIT.
      if (endsConnection(error)) markBroken(error)
      else await rollBack()
      throw sqlStateOf(error) === '25P02' ? new TransactionAbortedError() : failed.explain(error)
    }
    if (refusedCommit(error)) throw error
    markBroken(error)
    throw new CommitUnknownError(error)
  }

  async function rollBack(): Promise<void> {
    watch?.stop()
    waiting = nothing
    // A driver error, such as a timeout, does not mean that the statement has ended: ROLLBACK might wait for it forever.
    if (endsConnection(queue.failure) || isDriverError(queue.failure)) markBroken(queue.failure)
    if (isOccupied()) markBroken(leftOpen())
    // The server rolls back the open transaction of a closed connection.
    if (!begun || broken !== undefined) return
    await queue.run(() => client.query('ROLLBACK')).catch(markBroken)
  }

  return { session, commit, rollBack, markBroken, broken: () => broken }
}

/** Whether the driver failed, and not the server: the connection may wait for an answer that never comes. */
function isDriverError(error: unknown): boolean {
  return error !== undefined && sqlStateOf(error) === undefined && !isAckordError(error)
}

/** Whether pg continues after a parameter that it cannot serialise. Before 8.22 it waits forever for the answer to a statement it never sent. */
function recovers(client: PgClient): boolean {
  const { connection } = client as PgClient & PipelineClient
  return connection !== undefined && 'submittedNamedStatements' in connection
}

/** A cursor of pg-cursor, also inside of a stream of pg-query-stream, knows that it is closed before the server has confirmed it. */
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

function openingOf(settings: readonly string[], markBroken: (error: unknown) => void): readonly Waiting[] {
  const explain = (error: unknown) => {
    markBroken(error)
    return error
  }
  if (settings.length === 0) return [{ statement: begin, explain }]
  return [begin, ...settings.map((sql) => ({ sql, prepare: true }))].map((statement) => ({ statement, explain }))
}

function withWaiting(waiting: readonly Waiting[], statements: readonly Statement[]): readonly Statement[] {
  return waiting === nothing ? statements : [...waiting.map(({ statement }) => statement), ...statements]
}

/** One round trip if the client supports pipelining, otherwise one per statement. Never rejects. */
function sendInOneRoundTrip(client: PgClient, statements: readonly Statement[], options: PgSessionOptions): Promise<PipelineOutcome> {
  const pipelineClient = client as PgClient & PipelineClient
  // A single statement without parameters, such as BEGIN or COMMIT, is cheaper as a simple query.
  const isWorthIt = statements.length > 1 || statements[0]?.parameters !== undefined
  return isWorthIt && canPipeline(pipelineClient) ? sendPipelined(pipelineClient, statements, options) : sendOneByOne(client, statements)
}

async function sendOneByOne(client: PgClient, statements: readonly Statement[]): Promise<PipelineOutcome> {
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
  // pg tracks its own prepared statements, so these names differ from those of the pipeline, which it does not know.
  const asked = prepare
    ? handle.query({ name: `${nameOf(sql)}_pg`, text: sql, values: valuesFor(handle, parameters) })
    : handle.query(sql, valuesFor(handle, parameters))
  const { rows, rowCount } = await asked
  // Rows are objects: no statement of the library asks for arrays.
  return { rows: rows as StatementResult['rows'], count: countOf(rowCount) ?? 0 }
}

function valuesFor(handle: PgQueryable, parameters: readonly unknown[]): unknown[] {
  return isNative(handle) ? nativeParameters(parameters) : [...parameters]
}

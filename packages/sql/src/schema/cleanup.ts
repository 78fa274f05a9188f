import { AckordError, idle, type Logger, type Metrics, outside, type Runtime, systemRuntime } from '@ackord/core'
import { checkCount, checkDuration, PartPorts, rejectUnknownOptions } from '@ackord/core/internal'
import type { Driver } from '../contract/driver.ts'
import type { TableOptions } from '../contract/tables.ts'
import { cleanIdempotency } from '../idempotency/clean-idempotency.ts'
import { cleanInbox } from '../inbox/clean-inbox.ts'
import { sqlOutbox } from '../outbox/sql-outbox.ts'
import { cleanProcesses } from '../process/clean-processes.ts'
import { type Database, portOf } from '../transaction/database.ts'

export interface CleanupOptions extends TableOptions {
  /**
   * Milliseconds for which the inbox remembers a message; `false`: forever. It must be longer than the broker may take to redeliver a message,
   * replays included. An inbox in partitions remembers it for up to half a window more. Default: 7 days.
   */
  readonly inboxWindow?: number | false | undefined
  /**
   * Milliseconds for which published records are kept, if the outbox retains them; `false`: forever. Other records are never deleted. Default: 24
   * hours.
   */
  readonly keepPublished?: number | false | undefined
  /** Milliseconds after which the broker redelivers nothing, replays of dead letters included. A shorter window logs a warning. Default: unknown. */
  readonly redeliveryHorizon?: number | undefined
  /** Milliseconds between two rounds, over all processes together. Default: 1 minute. */
  readonly interval?: number | undefined
  /** The number of rows deleted per batch. Default: 1000. */
  readonly batch?: number | undefined
  /** The maximum number of batches per table and round; the next round continues. Default: 100. */
  readonly batches?: number | undefined
  /** Default: that of the database. */
  readonly logger?: Logger | undefined
  /** Counts `ackord.cleanup.deleted`. Default: none. */
  readonly metrics?: Metrics | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** Runs until it is stopped. Does not keep the process alive. */
export interface Cleanup extends AsyncDisposable {
  /** Ends after the current batch. Idempotent. */
  stop(): Promise<void>
}

const day = 24 * 60 * 60 * 1000
/** Lets others use the tables between two batches. */
const breath = 20
const background = { keepAlive: false }

/**
 * Periodically deletes expired inbox rows, published outbox records, expired answers of `sqlIdempotency()` and finished instances of `sqlProcesses()`: in bounded batches, by the database's clock. Safe to run in any number of
 * processes; they take turns.
 */
export function startCleanup<Handle>(database: Database<Handle>, options: CleanupOptions = {}): Cleanup {
  const {
    inboxWindow = 7 * day,
    keepPublished = day,
    redeliveryHorizon,
    interval = 60_000,
    batch = 1000,
    batches = 100,
    ...ports
  } = options
  const { logger: givenLogger, metrics: givenMetrics, runtime = systemRuntime, schema, names, ...unknown } = ports
  rejectUnknownOptions('startCleanup()', unknown)
  if (inboxWindow !== false) checkDuration('inboxWindow', inboxWindow, { min: 1 })
  if (keepPublished !== false) checkDuration('keepPublished', keepPublished)
  if (redeliveryHorizon !== undefined) checkDuration('redeliveryHorizon', redeliveryHorizon)
  checkDuration('interval', interval, { min: 1 })
  checkCount('batch', batch)
  checkCount('batches', batches)
  const { driver, dialect, tables: tablesOf, ports: shared } = portOf(database)
  const { logger, metrics } = new PartPorts({ logger: givenLogger ?? shared.logger, metrics: givenMetrics }, [shared])
  const tables = tablesOf({ schema, names })
  const outbox = sqlOutbox(database, { schema, names, logger })
  if (inboxWindow !== false && redeliveryHorizon !== undefined && inboxWindow < redeliveryHorizon) {
    const text = 'The inbox forgets messages that the broker may still deliver again: they would be handled twice. Make inboxWindow longer.'
    logger.warn({ inboxWindow, redeliveryHorizon }, text)
  }

  const stopping = new AbortController()
  const { signal } = stopping
  let failing = false

  async function drain(table: string, deleteBatch: () => Promise<number>): Promise<void> {
    for (let count = 0; count < batches && !signal.aborted; count += 1) {
      const deleted = await deleteBatch()
      metrics?.count('ackord.cleanup.deleted', deleted, { table })
      if (deleted < batch) return
      await idle(runtime, breath, signal, background)
    }
  }

  async function round(): Promise<void> {
    try {
      const isOurs = await dialect.store.takeTurn(driver as Driver<unknown>, tables.meta, { name: 'cleanup', interval })
      if (!isOurs) return
      if (inboxWindow !== false) await drain('inbox', () => cleanInbox(database, { window: inboxWindow, limit: batch, schema, names }))
      if (keepPublished !== false) await drain('outbox', () => outbox.deletePublished({ olderThan: keepPublished, limit: batch }))
      await drain('idempotency', () => cleanIdempotency(database, { limit: batch, schema, names }))
      await drain('process', () => cleanProcesses(database, { limit: batch, schema, names }))
      if (failing) logger.info({}, 'The cleanup works again.')
      failing = false
    } catch (error) {
      if (!failing) logger.warn({ err: error }, 'The cleanup failed, and is retried.')
      failing = true
    }
  }

  async function run(): Promise<void> {
    // Spreads out processes that start at the same time.
    for (let wait = interval * runtime.random(); ; wait = interval * (0.9 + 0.2 * runtime.random())) {
      if (!(await idle(runtime, wait, signal, background))) return
      await round()
    }
  }

  const ended = outside(run)
  const stop = async () => {
    stopping.abort(new AckordError('ACKORD_SHUTDOWN', 'The cleanup was stopped.'))
    await ended
  }
  return { stop, [Symbol.asyncDispose]: stop }
}

import { exponentialBackoff, idle, type Runtime, type Timer } from '@ackord/core'
import { checkFunction } from '@ackord/core/internal'
import type { FollowOptions, Notifications } from '../../contract/driver.ts'
import { quoteIdentifier } from '../sql-text.ts'

/** The part of a `pg.Client` that is used. */
export interface PgNotificationClient {
  connect(): Promise<unknown>
  query(sql: string): Promise<unknown>
  end(): Promise<unknown>
  on(event: 'notification' | 'error' | 'end', listener: (given: never) => void): unknown
}

const backoff = exponentialBackoff({ initial: 500, max: 30_000, jitter: 0.5 })

/** Milliseconds. A connection whose peer is gone looks like an idle one, so it is checked. */
const checkEvery = 60_000
const checkTimeout = 10_000

/**
 * Wakes a relay immediately when other processes commit, over a connection of its own: pools and ORMs have none that could LISTEN, and neither has
 * PgBouncer in transaction mode, so connect to the server itself.
 *
 *     const outbox = sqlOutbox(database, { notifications: pgNotifications(() => new pg.Client(url)) })
 *
 * Writers need `notify: true`. Polling continues, and finds records whose hints were lost.
 */
export function pgNotifications(connect: () => PgNotificationClient): Notifications {
  checkFunction('pgNotifications(connect)', connect)
  return {
    async follow(table, wake, options) {
      const { signal, runtime, logger } = options
      let failures = 0
      const onListening = () => {
        if (failures > 0) logger.info({}, 'Notifications of the database work again.')
        failures = 0
        // There are no notifications for earlier commits.
        wake()
      }
      while (!signal.aborted) {
        const error = await listen(connect, channelOf(table), { ...options, wake, onListening })
        if (signal.aborted) return
        failures += 1
        if (failures === 1)
          logger.warn({ err: error }, 'Notifications of the database fail; until they work again, records wait for the next poll.')
        await idle(runtime, backoff(failures, runtime.random), signal)
      }
    },
  }
}

/** The unqualified name of a quoted table: writers may find it through the search path, and listeners through its schema. */
export function channelOf(table: string): string {
  const [, name = ''] = /"((?:[^"]|"")*)"$/.exec(table) ?? []
  return name.replaceAll('""', '"')
}

interface ListenOptions extends FollowOptions {
  readonly wake: () => void
  readonly onListening: () => void
}

/** Resolves to the reason when it ends. */
async function listen(connect: () => PgNotificationClient, channel: string, options: ListenOptions): Promise<unknown> {
  const { signal, runtime, wake, onListening } = options
  let client: PgNotificationClient | undefined
  let end: ((reason: unknown) => void) | undefined
  const over = new Promise<unknown>((resolve) => {
    end = resolve
  })
  const onAbort = () => end?.(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  let checks: Disposable | undefined
  try {
    client = connect()
    // Added first: an unhandled error event ends the process.
    client.on('error', (error) => end?.(error))
    client.on('end', () => end?.(new Error('The connection for notifications was closed.')))
    client.on('notification', () => wake())
    const listening = begin(client, channel)
    listening.then(undefined, (error: unknown) => end?.(error))
    const begun = await Promise.race([listening.then(() => true), over.then(() => false)])
    if (begun) {
      onListening()
      checks = checkAlive(client, runtime, (error) => end?.(error))
    }
    return await over
  } catch (error) {
    return error
  } finally {
    checks?.[Symbol.dispose]()
    signal.removeEventListener('abort', onAbort)
    // A broken connection may never confirm its end.
    client?.end().catch(() => {})
  }
}

async function begin(client: PgNotificationClient, channel: string): Promise<void> {
  await client.connect()
  await client.query(`LISTEN ${quoteIdentifier('names.outbox', channel)}`)
}

function checkAlive(client: PgNotificationClient, runtime: Runtime, onDead: (error: unknown) => void): Disposable {
  let timer: Timer | undefined
  const late = () => onDead(new Error(`The connection for notifications did not answer for ${checkTimeout} ms.`))
  const check = () => {
    timer = runtime.setTimeout(late, checkTimeout, { keepAlive: false })
    client.query('SELECT 1').then(() => {
      timer?.cancel()
      plan()
    }, onDead)
  }
  const plan = () => {
    timer = runtime.setTimeout(check, checkEvery, { keepAlive: false })
  }
  plan()
  return { [Symbol.dispose]: () => timer?.cancel() }
}

import { type Logger, silentLogger, systemRuntime } from '@ackord/core'
import type { Notifications } from '@ackord/sql'
import { fromPg, pgNotifications } from '@ackord/sql/postgres'
import pg from 'pg'
import type { ServiceUrl } from '../settings/urls.ts'
import { sqlStore, tableOptions } from './sql-store.ts'
import type { SqlStore, StoreLocation } from './store.ts'

/** Longer than a slow network takes, shorter than a user waits for a command. */
const connectTimeout = 5000

export function openPostgres({ text, address }: ServiceUrl, location: StoreLocation, logger: Logger): SqlStore {
  const options = { connectionString: text, connectionTimeoutMillis: connectTimeout, application_name: 'ackord' }
  const pool = new pg.Pool({ ...options, max: 10, allowExitOnIdle: true })
  const notifications = () => pgNotifications(() => new pg.Client(options))
  const database = fromPg(pool, { ...tableOptions(location), logger })
  return sqlStore(
    database,
    {
      kind: 'postgres',
      address,
      async run(handle, sql, parameters) {
        const { rows } = await handle.query(sql, [...parameters])
        return rows
      },
      quote: (name) => `"${name.replaceAll('"', '""')}"`,
      notifications,
      hearsNotifications: () => isReceived(notifications(), (channel) => pool.query(`NOTIFY "${channel}"`)),
      close: () => pool.end(),
    },
    location,
  )
}

/** Longer than a notification takes, on any network. */
const notificationTimeout = 3000

async function isReceived(notifications: Notifications, notify: (channel: string) => Promise<unknown>): Promise<boolean> {
  const channel = `ackord_doctor_${systemRuntime.uuid().slice(0, 8)}`
  const ended = new AbortController()
  const timer = systemRuntime.setTimeout(() => ended.abort(), notificationTimeout)
  let calls = 0
  const wake = () => {
    calls += 1
    // The first call reports that it listens.
    if (calls === 1) notify(channel).catch(() => ended.abort())
    else ended.abort()
  }
  await notifications.follow(`"${channel}"`, wake, { signal: ended.signal, runtime: systemRuntime, logger: silentLogger })
  timer.cancel()
  return calls > 1
}

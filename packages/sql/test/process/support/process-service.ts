import { silentLogger } from '@ackord/core'
import { installProbe } from '@ackord/core/internal'
import type { Database } from '../../../src/index.ts'
import { fromMysql2 } from '../../../src/mysql/index.ts'
import { fromPg } from '../../../src/postgres/index.ts'
import { fromSqlite } from '../../../src/sqlite/index.ts'
import { leftOf, type OrderEvent, orderHandler } from './order-process.ts'

/** An event for this process, and the point at which the process is killed while it handles it. Without an event: a question for what there is of the order. */
export interface HandleEvent {
  readonly type: 'order.placed' | 'order.changed'
  readonly data: OrderEvent
  readonly killAt?: string | undefined
}

const { SERVICE_STORE = '', SERVICE_URL = '', SERVICE_SCHEMA = '' } = process.env

async function open(): Promise<Database<never>> {
  if (SERVICE_STORE === 'postgres') {
    const { default: pg } = await import('pg')
    const pool = new pg.Pool({ connectionString: SERVICE_URL, max: 2, options: `-c search_path=${SERVICE_SCHEMA}` })
    return fromPg(pool, { logger: silentLogger }) as unknown as Database<never>
  }
  if (SERVICE_STORE === 'mysql') {
    const { createPool } = await import('mysql2/promise')
    return fromMysql2(createPool({ uri: SERVICE_URL, connectionLimit: 2 })) as unknown as Database<never>
  }
  const { DatabaseSync } = await import('@photostructure/sqlite')
  return fromSqlite(new DatabaseSync(SERVICE_URL), { logger: silentLogger }) as unknown as Database<never>
}

const database = await open()
const handle = orderHandler(database)

process.on('message', async ({ type, data, killAt }: HandleEvent) => {
  installProbe((point) => {
    if (point !== killAt) return undefined
    process.kill(process.pid, 'SIGKILL')
    return new Promise(() => {})
  })
  try {
    await handle(type, data)
    process.send?.(await leftOf(database, data.order))
  } catch (error) {
    process.send?.({ error: String(error) })
  }
})
process.on('disconnect', () => process.exit())
process.send?.({ ready: true })

import { type RawMessage, silentLogger } from '@ackord/core'
import { Relay, type RelayOptions } from '@ackord/outbox'
import { createSchema, type SqlOutbox, sqlOutbox } from '@ackord/sql'
import { type FromPgOptions, fromPg } from '@ackord/sql/postgres'
import pg from 'pg'
import { eventMessage } from '../event-message.ts'
import { instantPublisher } from '../instant-publisher.ts'

export const postgresUrl = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'

export const destination = 'order-events'

type Handle = Pick<pg.Pool, 'query'>

/** A separate schema on the server, dropped at the end. */
export interface RelayWorld extends AsyncDisposable {
  readonly pool: pg.Pool
  createPool(): pg.Pool
  outbox(options?: FromPgOptions): SqlOutbox<Handle>
  /** Stores `count` records, in the order of their numbers. */
  fill(count: number, options?: FillOptions): Promise<void>
  empty(): Promise<void>
}

interface FillOptions extends FromPgOptions {
  readonly keyOf?: ((index: number) => string) | undefined
}

let opened = 0

export async function openWorld(): Promise<RelayWorld> {
  opened += 1
  const schema = `ackord_bench_relay_${process.pid}_${opened}`
  const createPool = () => new pg.Pool({ connectionString: postgresUrl, max: 8, options: `-c search_path=${schema}` })
  const pool = createPool()
  await pool.query(`CREATE SCHEMA ${schema}`)
  await createSchema(fromPg(pool))
  return {
    pool,
    createPool,
    outbox: (options = {}) => sqlOutbox(fromPg(pool, options), { logger: silentLogger }),
    async fill(count, { keyOf, ...options } = {}) {
      const database = fromPg(pool, options)
      const outbox = sqlOutbox(database, { logger: silentLogger })
      const chunk = 5000
      for (let start = 0; start < count; start += chunk) {
        const records = Array.from({ length: Math.min(chunk, count - start) }, (_, index) =>
          recordOf(start + index, keyOf?.(start + index)),
        )
        await database.write((transaction) => outbox.append(transaction, records))
      }
      await pool.query('VACUUM ANALYZE ackord_outbox, ackord_log')
    },
    async empty() {
      await pool.query('TRUNCATE ackord_outbox, ackord_log, ackord_cursors, ackord_taken')
      await pool.query('ANALYZE ackord_outbox, ackord_log, ackord_cursors')
    },
    async [Symbol.asyncDispose]() {
      await pool.query(`DROP SCHEMA ${schema} CASCADE`)
      await pool.end()
    },
  }
}

function recordOf(index: number, key: string | undefined): { readonly destination: string; readonly message: RawMessage } {
  return { destination, message: eventMessage(`e-${index}`, key === undefined ? {} : { partitionkey: key }) }
}

/** Runs relays until `count` counted records are published. Resolves to their rate per second. */
export async function relayRate(
  stores: readonly SqlOutbox<Handle>[],
  count: number,
  options: Partial<RelayOptions> & { readonly counts?: (message: RawMessage) => boolean } = {},
): Promise<number> {
  const { counts, ...settings } = options
  const publisher = instantPublisher(count, counts)
  const relays = stores.map((store) => new Relay(store, { ...settings, publisher, logger: silentLogger }))
  const start = process.hrtime.bigint()
  for (const relay of relays) relay.start()
  await publisher.finished
  const seconds = Number(process.hrtime.bigint() - start) / 1e9
  for (const relay of relays) await relay.stop()
  const { published } = publisher
  if (published < count) throw new Error(`Expected ${count} published records, got ${published}.`)
  return count / seconds
}

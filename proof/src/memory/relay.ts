import { silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { sqlOutbox } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import pg from 'pg'
import { postgresUrl } from '../load/load-plan.ts'

/** What a relay with little memory tells its parent when the outbox is empty, or all that is left is parked. */
export interface MemoryReport {
  readonly published: number
  /** Megabytes: the most that the process ever had. */
  readonly rss: number
}

const { MEMORY_SCHEMA: schema = '', MEMORY_ORDER: order = 'none', MEMORY_ATTEMPTS: maxAttempts = '10' } = process.env

const pool = new pg.Pool({ connectionString: postgresUrl, options: `-c search_path=${schema}`, max: 4 })
const store = sqlOutbox(fromPg(pool, { order: order === 'perKey' ? 'perKey' : 'none' }), { logger: silentLogger })
let published = 0
const relay = new Relay(store, {
  logger: silentLogger,
  maxAttempts: Number(maxAttempts),
  lease: 2000,
  publishTimeout: 1500,
  publisher: {
    async publish(_, messages) {
      published += messages.length
      return messages.map(() => ({ ok: true }))
    },
  },
})
relay.start()
for (;;) {
  const { destinations } = await store.stats()
  if (destinations.every(({ ready, waiting, leased }) => ready + waiting + leased === 0)) break
  await new Promise((resolve) => setTimeout(resolve, 250))
}
await relay.stop()
await pool.end()
process.send?.({ published, rss: Math.round(process.resourceUsage().maxRSS / 1024) } satisfies MemoryReport)
process.disconnect?.()

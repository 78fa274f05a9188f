import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { Message, silentLogger } from '@ackord/core'
import { installProbe } from '@ackord/core/internal'
import { type Database, sqlIdempotency, sqlOutbox } from '../../../src/index.ts'
import { fromMysql2 } from '../../../src/mysql/index.ts'
import { fromPg } from '../../../src/postgres/index.ts'
import { fromSqlite } from '../../../src/sqlite/index.ts'

/** A request to this process, and the point at which the process is killed while it serves it. */
export interface ServeRequest {
  readonly request: string
  readonly lease: number
  readonly killAt?: string | undefined
  /** Whether the work rejects, so that the claim is given back. */
  readonly fails?: boolean | undefined
}

interface Access<Handle> {
  readonly database: Database<Handle>
  insert(transaction: Handle, id: string, note: string): Promise<unknown>
}

const { SERVICE_STORE = '', SERVICE_URL = '' } = process.env

async function serveOn<Handle>({ database, insert }: Access<Handle>): Promise<void> {
  const store = sqlIdempotency(database)
  const outbox = sqlOutbox(database, { logger: silentLogger })

  /** Places an order, as an HTTP handler does. Resolves to the body of the answer: the id of the order. */
  async function serve({ request, lease, fails = false }: ServeRequest): Promise<string> {
    const key = { scope: 'POST /orders', key: request }
    for (;;) {
      const found = await store.claim(key, { fingerprint: 'f1', lease })
      if (found.state === 'mismatch') throw new Error('The request is another one.')
      if (found.state === 'answered') return new TextDecoder().decode(found.answer.body)
      if (found.state === 'running') {
        await setTimeout(Math.min(found.remaining, 50))
        continue
      }
      try {
        const place = async (transaction: Handle) => {
          const id = randomUUID()
          await insert(transaction, id, request)
          const message = new Message({ id }, { id, type: 'order.placed', source: '/orders' })
          await outbox.append(transaction, { destination: request, message })
          if (fails) throw new Error('Out of stock.')
          return { status: 201, headers: [], body: new TextEncoder().encode(id) }
        }
        const { body } = await store.write(key, found.token, place, { retention: 60_000 })
        return new TextDecoder().decode(body)
      } catch (error) {
        await store.release(key, found.token)
        throw error
      }
    }
  }

  process.on('message', async (asked: ServeRequest) => {
    installProbe((point) => {
      if (point !== asked.killAt) return undefined
      process.kill(process.pid, 'SIGKILL')
      return new Promise(() => {})
    })
    try {
      process.send?.({ body: await serve(asked) })
    } catch (error) {
      process.send?.({ error: String(error) })
    }
  })
}

const stores: Readonly<Record<string, () => Promise<void>>> = {
  async postgres() {
    const { default: pg } = await import('pg')
    const { SERVICE_SCHEMA = '' } = process.env
    const pool = new pg.Pool({ connectionString: SERVICE_URL, max: 2, options: `-c search_path=${SERVICE_SCHEMA}` })
    await serveOn({
      database: fromPg(pool),
      insert: (transaction, id, note) => transaction.query('INSERT INTO orders (id, note) VALUES ($1, $2)', [id, note]),
    })
  },
  async mysql() {
    const { createPool } = await import('mysql2/promise')
    await serveOn({
      database: fromMysql2(createPool({ uri: SERVICE_URL, connectionLimit: 2 })),
      insert: (transaction, id, note) => transaction.query('INSERT INTO orders (id, note) VALUES (?, ?)', [id, note]),
    })
  },
  async sqlite() {
    const { DatabaseSync } = await import('@photostructure/sqlite')
    await serveOn({
      database: fromSqlite(new DatabaseSync(SERVICE_URL), { logger: silentLogger }),
      insert: async (transaction, id, note) => transaction.prepare('INSERT INTO orders (id, note) VALUES (?, ?)').run(id, note),
    })
  },
}

await stores[SERVICE_STORE]?.()
process.on('disconnect', () => process.exit())
process.send?.({ ready: true })

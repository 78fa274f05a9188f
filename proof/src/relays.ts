import { setTimeout as pause } from 'node:timers/promises'
import { Message, silentLogger } from '@ackord/core'
import { createSchema, sqlOutbox } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { connect } from 'amqplib'
import pg from 'pg'
import type { Bounds } from './bounds.ts'
import { postgresUrl, rabbitmqUrl } from './load/load-plan.ts'
import { MemberProcess } from './load/member-process.ts'
import { lease, queue, schema } from './relays/relays-plan.ts'

const partitions = 256
const keys = 2000
/** Records per transaction, and milliseconds between two of them: 1,000 records per second. */
const portion = 50
const interval = 50
/** Milliseconds for which a balanced state is watched under load. */
const watched = 5000
/** Milliseconds after which a state that has not been reached is a failure. */
const patience = 120_000

interface Balance {
  /** Milliseconds. */
  readonly after: number
  /** The fewest and the most partitions that a relay has. */
  readonly shares: string
}

const bound = {
  /** Milliseconds from the registration of the last relay, or the end of the last that stopped, until the shares are even. */
  balanced: 15_000,
  /** The same after a kill: the lease, and the time in which the others notice. */
  balancedAfterKill: lease + 15_000,
} as const

/** 4 and 16 relays, each a process of its own, on PostgreSQL with order per key, while a quarter of them is killed, replaced and stopped. */
export async function relays(bounds: Bounds): Promise<Record<string, unknown>> {
  return { '4': await share(4, bounds), '16': await share(16, bounds) }
}

async function share(count: number, bounds: Bounds): Promise<Record<string, unknown>> {
  const name = `${count} relays`
  console.error(`relays: ${name}`)
  await using store = await openStore()
  await using events = await openEvents()
  await using members = new Relays()
  await using writer = store.write()

  const start = performance.now()
  members.add(count)
  await store.registered(count)
  const registered = performance.now() - start
  const joined = await store.balanced(count)
  await pause(watched)
  const quarter = count / 4
  await members.kill(quarter)
  const afterKill = await store.balanced(count - quarter)
  members.add(quarter)
  await store.registered(count)
  const replaced = await store.balanced(count)
  const before = await members.published()
  await pause(watched)
  const after = await members.published()
  await members.stop(quarter)
  const afterStop = await store.balanced(count - quarter)

  const written = await writer.stop()
  await store.drained()
  await events.received(written)
  await members.stop(count - quarter)
  const { outOfOrder, duplicates } = events.figures()
  const published = after.map((total, index) => total - (before[index] ?? 0))
  const [least, most] = [Math.min(...published), Math.max(...published)]
  bounds.atMost(`relays: milliseconds until ${name} have even shares`, joined.after, bound.balanced)
  bounds.atMost(`relays: milliseconds until ${name} have even shares after a kill`, afterKill.after, bound.balancedAfterKill)
  bounds.atMost(`relays: milliseconds until ${name} have even shares after the killed ones are replaced`, replaced.after, bound.balanced)
  bounds.atMost(`relays: milliseconds until ${name} have even shares after a stop`, afterStop.after, bound.balanced)
  bounds.atMost(`relays: records out of order, ${name}`, outOfOrder, 0)
  bounds.atLeast(`relays: records that the least busy of ${name} has published`, least, 1)
  return {
    records: written,
    started_ms: Math.round(registered),
    joined,
    after_kill: afterKill,
    replaced,
    after_stop: afterStop,
    published_least: least,
    published_most: most,
    out_of_order: outOfOrder,
    duplicates,
  }
}

class Relays implements AsyncDisposable {
  readonly #all: MemberProcess[] = []

  add(count: number): void {
    for (let index = 0; index < count; index += 1) this.#all.push(new MemberProcess('relay', new URL('./relays/relay.js', import.meta.url)))
  }

  async published(): Promise<readonly number[]> {
    return (await Promise.all(this.#all.map((member) => member.report()))).map(({ published }) => published)
  }

  /** The oldest ones. */
  async kill(count: number): Promise<void> {
    await Promise.all(this.#all.splice(0, count).map((member) => member.kill()))
  }

  async stop(count: number): Promise<void> {
    await Promise.all(this.#all.splice(0, count).map((member) => member.stop()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill(this.#all.length)
  }
}

/** The real tables, in a schema of their own. */
async function openStore() {
  const pool = new pg.Pool({ connectionString: postgresUrl, max: 2 })
  pool.on('error', () => {})
  await pool.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
  const database = fromPg(pool, { schema, logger: silentLogger })
  await createSchema(database)
  const outbox = sqlOutbox(database, { order: 'perKey', logger: silentLogger })

  async function shares(): Promise<readonly number[]> {
    const { rows } = await pool.query(`SELECT count(*)::int AS n FROM ${schema}.ackord_partitions WHERE owner IS NOT NULL GROUP BY owner`)
    return rows.map(({ n }) => n as number)
  }

  return {
    async registered(count: number): Promise<void> {
      await reached(`${count} registered relays`, async () => {
        const { rows } = await pool.query(`SELECT count(*)::int AS n FROM ${schema}.ackord_relays WHERE alive_until > clock_timestamp()`)
        return rows[0].n >= count
      })
    },

    /**
     * Resolves when all partitions belong to these relays, and none has more than its share: 256 divided by their number, rounded up. Where that leaves a
     * remainder, the last one has less.
     */
    async balanced(count: number): Promise<Balance> {
      const start = performance.now()
      let [least, most] = [0, partitions]
      await reached(`even shares of ${count} relays`, async () => {
        const owned = await shares()
        least = Math.min(...owned)
        most = Math.max(...owned)
        return (
          most <= Math.ceil(partitions / count) && owned.length === count && owned.reduce((sum, share) => sum + share, 0) === partitions
        )
      })
      return { after: Math.round(performance.now() - start), shares: `${least} to ${most}` }
    },

    async drained(): Promise<void> {
      await reached('an empty outbox', async () => {
        const { rows } = await pool.query(`SELECT FROM ${schema}.ackord_outbox LIMIT 1`)
        return rows.length === 0
      })
    },

    /** Writes records until it is stopped, the numbers of each key in their order. `stop()` returns how many are committed. */
    write() {
      let written = 0
      let stopped = false
      const append = async () => {
        while (!stopped) {
          const records = Array.from({ length: portion }, (_, offset) => {
            const number = written + offset
            const attributes = { id: String(number), type: 'order.changed', source: '/orders', specversion: '1.0' }
            return {
              destination: queue,
              message: new Message(new Uint8Array(100), { ...attributes, partitionkey: `order-${number % keys}` }),
            }
          })
          await database.write((transaction) => outbox.append(transaction, records))
          written += portion
          await pause(interval)
        }
      }
      const writing = append()
      return {
        async stop(): Promise<number> {
          stopped = true
          await writing
          return written
        },
        async [Symbol.asyncDispose]() {
          stopped = true
          await writing
        },
      }
    },

    async [Symbol.asyncDispose]() {
      await pool.query(`DROP SCHEMA ${schema} CASCADE`)
      await pool.end()
    },
  }
}

/** Reads what the relays publish, and checks that the first occurrences of each key come in their order, without gaps. */
async function openEvents() {
  const connection = await connect(rabbitmqUrl)
  const channel = await connection.createChannel()
  await channel.deleteQueue(queue)
  await channel.assertQueue(queue)
  const next = new Map<string, number>()
  let first = 0
  let duplicates = 0
  let outOfOrder = 0
  await channel.consume(
    queue,
    (delivery) => {
      if (delivery === null) return
      const id = Number(delivery.properties.messageId)
      const key = String(id % keys)
      const number = Math.floor(id / keys)
      const expected = next.get(key) ?? 0
      if (number < expected) {
        duplicates += 1
        return
      }
      if (number > expected) outOfOrder += 1
      next.set(key, number + 1)
      first += 1
    },
    { noAck: true },
  )
  return {
    async received(count: number): Promise<void> {
      await reached(`${count} events`, async () => first >= count)
    },
    figures: () => ({ duplicates, outOfOrder }),
    async [Symbol.asyncDispose]() {
      await channel.deleteQueue(queue)
      await connection.close()
    },
  }
}

async function reached(what: string, isReached: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + patience
  while (!(await isReached())) {
    if (performance.now() > deadline) throw new Error(`There were no ${what} within ${patience / 1000} s.`)
    await pause(50)
  }
}

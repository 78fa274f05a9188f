import { setTimeout as pause } from 'node:timers/promises'
import { silentLogger } from '@ackord/core'
import { createSchema } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import pg from 'pg'
import type { Bounds } from './bounds.ts'
import { type LoadBroker, openLoadBroker } from './load/load-broker.ts'
import { failuresOf, postgresUrl, schema } from './load/load-plan.ts'
import type { MemberReport } from './load/member.ts'
import { MemberProcess } from './load/member-process.ts'

const workers = 4
const relays = 2
/** When memory is looked at: parts of the events that are published. */
const looks = [0.25, 0.5, 0.75, 1]
/** Milliseconds without a new event after which the run is over. */
const patience = 60_000

const bound = {
  /** Of the memory of a process at any later look, against that at the first. What leaks grows with the messages: to four times as much. */
  rssGrowth: 1.5,
  /** Megabytes that a heap may gain meanwhile, after a garbage collection. */
  heapGrowth: 8,
} as const

interface Look {
  readonly part: number
  readonly reports: readonly MemberReport[]
}

/**
 * Messages through four workers and two relays, each a process of its own, on PostgreSQL and RabbitMQ; every tenth comes twice, of every hundred one fails.
 * `ACKORD_LOAD_MESSAGES` is for a smaller number.
 */
export async function load(bounds: Bounds): Promise<Record<string, unknown>> {
  const messages = messageCount()
  const indexes = Array.from({ length: messages }, (_, index) => index)
  const failing = indexes.filter((index) => failuresOf(index) > 0).length
  const hopeless = indexes.filter((index) => failuresOf(index) === Number.POSITIVE_INFINITY).length
  const expected = messages - hopeless
  console.error(`load: ${messages} messages, ${failing} fail, ${hopeless} of them always`)

  await using tables = await openTables()
  await using broker = await openLoadBroker()
  await using members = new Members()
  const start = performance.now()
  const sending = broker.send(messages)
  // It is awaited below; if it fails meanwhile, nothing more comes.
  sending.catch(() => {})
  const taken = await watch(broker, members, expected, hopeless)
  const seconds = (performance.now() - start) / 1000
  const sent = await sending
  const failedAttempts = taken.at(-1)?.reports.reduce((sum, { failed }) => sum + failed, 0) ?? 0
  await members.stop()

  const { events, duplicates, deadLetters } = broker.received()
  const { applied, different, inbox, outbox } = await tables.counts()
  const lost = expected - different
  const waiting = await broker.waiting()
  bounds.atMost('load: messages lost', lost, 0)
  bounds.atLeast('load: messages lost', lost, 0)
  bounds.atMost('load: messages applied twice', applied - different, 0)
  bounds.atMost('load: rows in the inbox', inbox, expected)
  bounds.atLeast('load: rows in the inbox', inbox, expected)
  bounds.atMost('load: events', events, expected)
  bounds.atLeast('load: events', events, expected)
  bounds.atMost('load: dead letters', deadLetters, hopeless)
  bounds.atLeast('load: dead letters', deadLetters, hopeless)
  bounds.atMost('load: records left in the outbox', outbox, 0)
  bounds.atMost('load: commands left in the queue', waiting, 0)
  bounds.atLeast('load: attempts that failed', failedAttempts, failing)
  return {
    messages,
    sent,
    seconds: rounded(seconds),
    messages_per_s: Math.round(sent / seconds),
    lost,
    applied_twice: applied - different,
    events,
    duplicates_published: duplicates,
    failed_attempts: failedAttempts,
    dead_letters: deadLetters,
    ...memoryOf(taken, members.names, bounds),
  }
}

function messageCount(): number {
  const text = process.env['ACKORD_LOAD_MESSAGES'] ?? '200000'
  const count = Number(text)
  if (!Number.isInteger(count) || count < 1000)
    throw new Error(`ACKORD_LOAD_MESSAGES must be a whole number from 1000 up; it is '${text}'.`)
  return count
}

/** Four workers and two relays. */
class Members implements AsyncDisposable {
  readonly #all: readonly MemberProcess[] = [
    ...Array.from(
      { length: workers },
      (_, index) => new MemberProcess(`worker ${index + 1}`, new URL('./load/worker.js', import.meta.url)),
    ),
    ...Array.from({ length: relays }, (_, index) => new MemberProcess(`relay ${index + 1}`, new URL('./load/relay.js', import.meta.url))),
  ]

  get names(): readonly string[] {
    return this.#all.map(({ name }) => name)
  }

  async report(): Promise<readonly MemberReport[]> {
    return await Promise.all(this.#all.map((member) => member.report()))
  }

  checkAlive(): void {
    for (const member of this.#all) member.checkAlive()
  }

  async stop(): Promise<void> {
    await Promise.all(this.#all.map((member) => member.stop()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#all.map((member) => member[Symbol.asyncDispose]()))
  }
}

/** Until everything that is expected has come out, or nothing comes any more. */
async function watch(broker: LoadBroker, members: Members, expected: number, hopeless: number): Promise<readonly Look[]> {
  const taken: Look[] = []
  let last = ''
  let changedAt = performance.now()
  for (;;) {
    members.checkAlive()
    const { events, deadLetters } = broker.received()
    const part = looks[taken.length]
    if (part !== undefined && events >= part * expected) {
      const reports = await members.report()
      taken.push({ part, reports })
      console.error(`  ${100 * part} %: ${reports.map(({ rss }) => megabytes(rss)).join(', ')} MB`)
    }
    if (events >= expected && deadLetters >= hopeless && taken.length === looks.length) return taken
    const now = performance.now()
    const state = `${events} ${deadLetters}`
    if (state !== last) changedAt = now
    else if (now - changedAt > patience) {
      console.error(`  nothing new for ${patience / 1000} s: ${events} of ${expected} events, ${deadLetters} of ${hopeless} dead letters`)
      return taken
    }
    last = state
    await pause(50)
  }
}

function memoryOf(taken: readonly Look[], names: readonly string[], bounds: Bounds): Record<string, unknown> {
  const first = taken[0]?.reports ?? []
  const final = taken.at(-1)?.reports ?? []
  const growths = names.map((name, index) => {
    const [before, after] = [first[index], final[index]]
    const highest = Math.max(...taken.map(({ reports }) => reports[index]?.rss ?? Number.NaN))
    const rss = rounded(highest / (before?.rss ?? Number.NaN))
    const heap = megabytes((after?.heap ?? Number.NaN) - (before?.heap ?? Number.NaN))
    bounds.atMost(`load: the most memory of ${name} against that at a quarter`, rss, bound.rssGrowth)
    bounds.atMost(`load: megabytes that the heap of ${name} has gained since a quarter`, heap, bound.heapGrowth)
    return { rss, heap }
  })
  const rss = Object.fromEntries(taken.map(({ part, reports }) => [`${100 * part}%`, reports.map((report) => megabytes(report.rss))]))
  return {
    rss_mb: rss,
    rss_growth_most: Math.max(...growths.map((growth) => growth.rss)),
    heap_growth_mb_most: Math.max(...growths.map((growth) => growth.heap)),
  }
}

/** The real tables and one of orders, in a schema of their own. */
async function openTables() {
  const pool = new pg.Pool({ connectionString: postgresUrl, max: 1 })
  pool.on('error', () => {})
  await pool.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
  await createSchema(fromPg(pool, { schema, logger: silentLogger }))
  // No key: a message that is applied twice would be there twice.
  await pool.query(`CREATE TABLE ${schema}.orders (index integer NOT NULL)`)
  const count = async (what: string) => Number((await pool.query(`SELECT count(${what}`)).rows[0].count)
  return {
    counts: async () => ({
      applied: await count(`*) FROM ${schema}.orders`),
      different: await count(`DISTINCT index) FROM ${schema}.orders`),
      inbox: await count(`*) FROM ${schema}.ackord_inbox`),
      outbox: await count(`*) FROM ${schema}.ackord_outbox`),
    }),
    async [Symbol.asyncDispose]() {
      await pool.query(`DROP SCHEMA ${schema} CASCADE`)
      await pool.end()
    },
  }
}

function megabytes(bytes: number): number {
  return rounded(bytes / 1_000_000)
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100
}

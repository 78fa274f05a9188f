import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { type Queue as BullQueue, Queue, Worker } from 'bullmq'
import PgBoss from 'pg-boss'
import { createClient } from 'redis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Message, type Publisher, type RawMessage, silentLogger } from '../../packages/core/src/index.ts'
import { Relay } from '../../packages/outbox/src/index.ts'
import { createSchema, sqlOutbox } from '../../packages/sql/src/index.ts'
import { fromPg } from '../../packages/sql/src/postgres/index.ts'
import { openSchema, postgresUrl } from '../../packages/sql/test/support/own-schema.ts'
import { type FaultProxy, startFaultProxy } from '../../packages/testkit/src/index.ts'
import { startRedis } from '../servers/index.mjs'
import { waitUntil } from '../servers/wait-until.mjs'
import { ownName } from '../test-run.mjs'
import { root, typescriptBlocks } from './docs-blocks.ts'

const document = 'docs/guides/job-queues.md'
const folder = `${root}.cache/job-queues-${ownName()}`

interface Job {
  readonly id: string
  /** The data of the job. */
  readonly event: unknown
}

/** A job queue behind a proxy, and the publisher of the guide for it. */
interface JobQueues extends AsyncDisposable {
  readonly proxy: FaultProxy
  readonly publisher: Publisher & AsyncDisposable
  create(): Promise<string>
  /** All jobs of the queue, in any state. */
  jobs(queue: string): Promise<readonly Job[]>
  completed(queue: string): Promise<number>
  remove(queue: string, id: string): Promise<void>
  /** Starts a worker that passes the data of its jobs to `handle`. */
  work(queue: string, handle: (event: { readonly id: string }) => void): Promise<void>
}

/** Imports a program of the guide. */
async function moduleOf<T>(title: string): Promise<T> {
  const example = typescriptBlocks(document).find((block) => block.title === title)
  mkdirSync(folder, { recursive: true })
  writeFileSync(`${folder}/${title}`, example?.code ?? '')
  return await import(`${folder}/${title}`)
}

async function openBullmq(): Promise<JobQueues> {
  const { bullmqPublisher } = await moduleOf<{
    bullmqPublisher(queues: Readonly<Record<string, BullQueue>>): Publisher & AsyncDisposable
  }>('bullmq-publisher.ts')
  // Not the shared server: the test run records what that one is sent, and BullMQ uses commands that Redis 6.0 does not have.
  const server = await startRedis()
  const proxy = await startFaultProxy(server.url)
  const [adding, working] = [proxy.url, server.url].map((url) => createClient({ url }).on('error', () => {}))
  if (adding === undefined || working === undefined) throw new Error('There must be two clients.')
  await Promise.all([adding.connect(), working.connect()])
  const queues: Record<string, BullQueue> = {}
  const publisher = bullmqPublisher(queues)
  const workers: Worker[] = []
  const queueOf = (name: string) => {
    const queue = queues[name]
    if (queue === undefined) throw new Error(`The test has no queue '${name}'.`)
    return queue
  }
  return {
    proxy,
    publisher,
    async create() {
      const name = `emails-${Object.keys(queues).length}`
      queues[name] = new Queue(name, { connection: adding }).on('error', () => {})
      return name
    },
    async jobs(name) {
      const jobs = await queueOf(name).getJobs(['waiting', 'active', 'completed', 'failed', 'delayed'])
      return jobs.map(({ id = '', data }) => ({ id, event: data }))
    },
    completed: (name) => queueOf(name).getCompletedCount(),
    remove: async (name, id) => void (await queueOf(name).remove(id)),
    async work(name, handle) {
      const worker = new Worker(name, async ({ data }) => handle(data), { connection: working })
      workers.push(worker.on('error', () => {}))
    },
    async [Symbol.asyncDispose]() {
      await publisher[Symbol.asyncDispose]()
      for (const closable of [...workers, ...Object.values(queues)]) await closable.close()
      for (const client of [adding, working]) client.destroy()
      await proxy[Symbol.asyncDispose]()
      await server.stop()
    },
  }
}

async function openPgBoss(): Promise<JobQueues> {
  const { pgBossPublisher } = await moduleOf<{ pgBossPublisher(boss: PgBoss): Publisher & AsyncDisposable }>('pg-boss-publisher.ts')
  const proxy = await startFaultProxy(postgresUrl)
  const schema = `ackord_${ownName()}`
  const boss = new PgBoss({ connectionString: proxy.url, schema, schedule: false, supervise: false, max: 4 })
  boss.on('error', () => {})
  await boss.start()
  const query = async (text: string, values: unknown[]) => (await boss.getDb().executeSql(text, values)).rows
  const publisher = pgBossPublisher(boss)
  let queues = 0
  return {
    proxy,
    publisher,
    async create() {
      queues += 1
      await boss.createQueue(`emails-${queues}`)
      return `emails-${queues}`
    },
    jobs: (name) => query(`SELECT id, data AS event FROM ${schema}.job WHERE name = $1`, [name]),
    completed: async (name) => (await query(`SELECT id FROM ${schema}.job WHERE name = $1 AND state = 'completed'`, [name])).length,
    remove: (name, id) => boss.deleteJob(name, id),
    async work(name, handle) {
      const options = { batchSize: 10, pollingIntervalSeconds: 0.5 }
      await boss.work<{ readonly id: string }>(name, options, async (jobs) => {
        for (const { data } of jobs) handle(data)
      })
    },
    async [Symbol.asyncDispose]() {
      await publisher[Symbol.asyncDispose]()
      await query(`DROP SCHEMA ${schema} CASCADE`, [])
      await boss.stop({ graceful: false, wait: true })
      await proxy[Symbol.asyncDispose]()
    },
  }
}

function event(id: string, source = '/orders'): RawMessage {
  const data = new TextEncoder().encode(JSON.stringify({ order: id }))
  return new Message(data, { id, source, type: 'order.placed', specversion: '1.0', datacontenttype: 'application/json' })
}

const signal = () => AbortSignal.timeout(20_000)

afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe.each([
  ['BullMQ', openBullmq],
  ['pg-boss', openPgBoss],
])('the publisher of the guide for %s', (_, open) => {
  let queues: JobQueues
  beforeAll(async () => {
    queues = await open()
  })
  afterAll(() => queues?.[Symbol.asyncDispose]())

  it('adds one job per event, whose data is the event, and whose id is a UUIDv5', async () => {
    const name = await queues.create()
    const events = ['a', 'b', 'c'].map((id) => event(id))
    expect(await queues.publisher.publish(name, events, { signal: signal() })).toEqual(events.map(() => ({ ok: true })))

    const jobs = await queues.jobs(name)
    expect(new Set(jobs.map((job) => job.event))).toEqual(new Set(events.map((each) => each.toJSON())))
    for (const { id } of jobs) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  })

  it('ignores repeats, also when the job has run', async () => {
    const name = await queues.create()
    const publish = () => queues.publisher.publish(name, [event('a')], { signal: signal() })
    await publish()
    expect(await publish()).toEqual([{ ok: true }])
    expect(await queues.jobs(name)).toHaveLength(1)

    const handled: string[] = []
    await queues.work(name, ({ id }) => handled.push(id))
    await waitUntil('the end of the job', async () => (await queues.completed(name)) === 1)
    expect(await publish()).toEqual([{ ok: true }])
    await queues.publisher.publish(name, [event('b')], { signal: signal() })
    await waitUntil('the end of the next job', async () => (await queues.completed(name)) === 2)
    expect(handled).toEqual(['a', 'b'])
  })

  it('adds another job for an event that the queue has forgotten', async () => {
    const name = await queues.create()
    const publish = () => queues.publisher.publish(name, [event('a')], { signal: signal() })
    await publish()
    const [first] = await queues.jobs(name)
    await queues.remove(name, first?.id ?? '')
    expect(await queues.jobs(name)).toEqual([])
    await publish()
    expect(await queues.jobs(name)).toEqual([first])
  })

  it('distinguishes events with the same id by their sources, and by their queues', async () => {
    const [name, other] = [await queues.create(), await queues.create()]
    const events = [event('a'), event('a', '/returns'), event('/a', ''), event('', '/a')]
    await queues.publisher.publish(name, events, { signal: signal() })
    await queues.publisher.publish(other, events.slice(0, 1), { signal: signal() })
    expect(new Set((await queues.jobs(name)).map(({ id }) => id)).size).toBe(4)
    expect(await queues.jobs(other)).toHaveLength(1)
  })

  it('reports a queue that does not exist, and a server that is down, as failures of the destination', async () => {
    const name = await queues.create()
    const [missing] = await queues.publisher.publish('missing', [event('a')], { signal: signal() })
    expect(missing).toMatchObject({ ok: false, scope: 'destination', error: { cause: { message: expect.stringContaining('no queue') } } })

    const { proxy, publisher } = queues
    proxy.refuse(true)
    proxy.cut()
    const [down] = await publisher.publish(name, [event('a')], { signal: AbortSignal.timeout(300) })
    expect(down).toMatchObject({ ok: false, scope: 'destination' })
    proxy.refuse(false)
    await waitUntil('the server', async () => (await publisher.publish(name, [event('a')], { signal: signal() }))[0]?.ok === true)
    expect(await queues.jobs(name)).toHaveLength(1)
  })

  it('turns each committed event of an outbox into one job that runs, although the relay publishes some again', async () => {
    const name = await queues.create()
    const ids = Array.from({ length: 30 }, (_each, index) => `o-${index}`)
    await using shop = await openSchema()
    const pool = shop.createPool({ max: 4 })
    const database = fromPg(pool)
    await createSchema(database)
    const outbox = sqlOutbox(database, { logger: silentLogger })
    const append = (id: string, fail = false) =>
      database.write(async (transaction) => {
        await outbox.append(transaction, [{ destination: name, message: event(id) }])
        if (fail) throw new Error('rolled back')
      })
    for (const id of ids) await append(id)
    await expect(append('never', true)).rejects.toThrow('rolled back')

    let [calls, published] = [0, 0]
    const forgetful: Publisher = {
      async publish(destination, messages, options) {
        const results = await queues.publisher.publish(destination, messages, options)
        calls += 1
        published += messages.length
        // To the outbox this is a relay that is killed after the queue has confirmed its jobs.
        if (calls === 1) throw new Error('killed')
        return results
      },
    }
    const relay = new Relay(outbox, {
      publisher: { [name]: forgetful },
      pollInterval: 20,
      destinationBackoff: () => 20,
      logger: silentLogger,
    })
    const handled: string[] = []
    await queues.work(name, ({ id }) => handled.push(id))
    relay.start()
    await waitUntil('an empty outbox', async () => (await shop.outbox()) === 0)
    await waitUntil('the end of all jobs', async () => (await queues.completed(name)) === ids.length)
    await relay.stop()
    await pool.end()

    expect(published).toBeGreaterThan(ids.length)
    expect(handled.toSorted()).toEqual(ids.toSorted())
    expect(await queues.jobs(name)).toHaveLength(ids.length)
  })
})

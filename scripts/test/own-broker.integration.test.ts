import { randomBytes } from 'node:crypto'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Publisher, Source } from '../../packages/core/src/index.ts'
import { silentLogger } from '../../packages/core/src/index.ts'
import { type BrokerWorld, testPublisher, testSource } from '../../packages/testkit/src/suites.ts'
import { root, typescriptBlocks } from './docs-blocks.ts'

const postgresUrl = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'
const document = 'docs/guides/own-broker.md'
const folder = `${root}.cache/own-broker`
const schema = `ackord_own_broker_${randomBytes(4).toString('hex')}`
const example = typescriptBlocks(document).find(({ title }) => title === 'postgres-queue.ts')

/** The exports of the example. */
interface QueueModule {
  readonly queueTable: string
  queuePublisher(pool: pg.Pool): Publisher & AsyncDisposable
  queueSource(pool: pg.Pool, topic: string, options: object): Source & AsyncDisposable
}

describe('the broker of the guide "Write your own broker"', () => {
  const pool = new pg.Pool({ connectionString: postgresUrl, options: `-c search_path=${schema}`, max: 10 })
  let queue: QueueModule
  let topics = 0

  beforeAll(async () => {
    mkdirSync(folder, { recursive: true })
    writeFileSync(`${folder}/postgres-queue.ts`, example?.code ?? '')
    queue = await import(`${folder}/postgres-queue.ts`)
    await pool.query(`CREATE SCHEMA ${schema}`)
    await pool.query(queue.queueTable)
  })

  afterAll(async () => {
    await pool.query(`DROP SCHEMA ${schema} CASCADE`)
    await pool.end()
    rmSync(folder, { recursive: true, force: true })
  })

  async function open(): Promise<BrokerWorld> {
    const opened: AsyncDisposable[] = []
    const track = <T extends AsyncDisposable>(resource: T): T => {
      opened.push(resource)
      return resource
    }
    return {
      async topic() {
        topics += 1
        const destination = `topic${topics}`
        return {
          destination,
          source: ({ deadLetter, prefetch } = {}) =>
            track(queue.queueSource(pool, destination, { deadLetter, prefetch, logger: silentLogger })),
        }
      },
      publisher: () => track(queue.queuePublisher(pool)),
      async [Symbol.asyncDispose]() {
        await Promise.all(opened.map((resource) => resource[Symbol.asyncDispose]()))
      },
    }
  }

  const claims = { competing: true, settlesEach: true, delay: true, deliveryCount: true, names: true }
  const subject = { name: 'a queue in PostgreSQL', open, claims }
  testPublisher({ describe, it }, subject)
  testSource({ describe, it }, subject)

  it('ends the source at the start if there is no table', async () => {
    const elsewhere = new pg.Pool({ connectionString: postgresUrl, options: '-c search_path=pg_temp' })
    await using source = queue.queueSource(elsewhere, 'orders', { logger: silentLogger })
    const iterator = source.messages({ signal: new AbortController().signal })[Symbol.asyncIterator]()
    await expect(iterator.next()).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED' })
    await elsewhere.end()
  })

  it('is of about a hundred lines', () => {
    const lines = example?.code.split('\n').filter((line) => line.trim() !== '').length
    expect(lines).toBeLessThan(115)
  })
})

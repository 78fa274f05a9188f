import { Message, silentLogger } from '@ackord/core'
import { createSchema, type SqlOutbox, sqlOutbox } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { settlePromises } from '@ackord/testkit'
import pg from 'pg'
import { expect, it } from 'vitest'
import { ownName } from '../../../scripts/test-run.mjs'
import type { Job, Overview, RecordPage } from '../src/index.ts'
import { openWorld } from './support/world.ts'

const connectionString = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'

/** An outbox in a schema of its own, with `count` records that are parked, and the texts of all statements since. */
async function openOutbox(count: number) {
  const schema = `dashboard_${ownName()}`
  const statements: string[] = []
  const pool = new pg.Pool({ connectionString, max: 4, options: `-c search_path=${schema} -c synchronous_commit=off` })
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (...given: unknown[]) => unknown
    client.query = ((...given: unknown[]) => {
      const [first] = given
      statements.push(typeof first === 'string' ? first : (first as { readonly text: string }).text)
      return query(...given)
    }) as typeof client.query
  })
  await pool.query(`create schema ${schema}`)
  const database = fromPg(pool, { schema, logger: silentLogger })
  await createSchema(database)
  const outbox: SqlOutbox<pg.Pool | pg.PoolClient> = sqlOutbox(database, { source: '/shop', destination: 'orders', logger: silentLogger })
  const client = await pool.connect()
  await client.query('begin')
  const events = Array.from({ length: count }, (_, index) => new Message({ index }, { id: `m${index}`, type: 'order.placed' }))
  await outbox.append(client as never, events)
  await client.query('commit')
  client.release()
  const claimed = await outbox.claim({ limit: count, lease: 60_000 })
  await outbox.settle(claimed.map(({ id, token }) => ({ id, token, result: 'parked', error: 'refused', cause: 'ECONNREFUSED' })))
  statements.length = 0
  return {
    outbox,
    statements,
    async [Symbol.asyncDispose]() {
      await pool.query(`drop schema ${schema} cascade`)
      await pool.end()
    },
  }
}

it('pages through the records of PostgreSQL, re-arms them in steps, and shows the audit', async () => {
  await using database = await openOutbox(1200)
  await using world = await openWorld({ stores: { shop: database.outbox } })
  const { client } = world
  const first = (await client.get<RecordPage>('stores/shop/records?limit=200&cause=ECONNREFUSED')).body
  const second = (await client.get<RecordPage>(`stores/shop/records?limit=200&after=${encodeURIComponent(first.next ?? '')}`)).body
  expect([first, second].map(({ records }) => records.at(0)?.messageId)).toEqual(['m0', 'm200'])
  expect((await client.get(`stores/shop/records/${first.records[0]?.id}`)).body).toMatchObject({
    payload: { kind: 'json', content: '{"index":0}' },
    history: [{ error: 'refused' }],
  })
  expect((await client.get('stores/shop/groups?by=failure')).body).toMatchObject({ groups: [{ name: 'ECONNREFUSED', count: 1200 }] })

  const action = { action: 'rearm', which: { filter: { cause: 'ECONNREFUSED' } }, reason: 'fixed' }
  expect((await client.post('stores/shop/preview', action)).body).toEqual({ count: 1200, capped: false })
  let { body: job } = await client.post('stores/shop/actions', action)
  while (job.state === 'running') {
    await settlePromises()
    job = (await client.get<Job>(`jobs/${job.id}`)).body
  }
  expect(job).toMatchObject({ state: 'done', count: 1200, total: 1200 })
  expect((await client.get('stores/shop/audit')).body).toMatchObject({
    entries: [{ action: 'rearm', by: 'ann', reason: 'fixed', count: 1200 }],
  })
  expect((await client.get<RecordPage>('stores/shop/records?state=parked')).body.records).toEqual([])
})

it('costs PostgreSQL at most one statement every two seconds', async () => {
  await using database = await openOutbox(10)
  await using world = await openWorld({ stores: { shop: database.outbox } })
  await world.client.get('overview')
  database.statements.length = 0
  for (let round = 0; round < 30; round += 1) {
    await world.runtime.advance(2000)
    const { body } = await world.client.get<Overview>('overview')
    expect(body).toMatchObject({ stores: [{ destinations: [{ destination: 'orders', parked: 10 }] }] })
    expect(body.stores[0]?.error).toBeUndefined()
  }

  expect(database.statements.length).toBeLessThanOrEqual(30)
  expect(database.statements.length).toBeGreaterThanOrEqual(29)
})

import { jsonMarshaler, marshal, silentLogger } from '@ackord/core'
import type { ClaimedRecord } from '@ackord/outbox'
import { createPool as createMariadbPool } from 'mariadb'
import { createPool as createMysql2Pool } from 'mysql2/promise'
import { describe, expect, it, vi } from 'vitest'
import { type Database, sqlOutbox } from '../../src/index.ts'
import { fromMariadb, fromMysql2 } from '../../src/mysql/index.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { fromSqlite } from '../../src/sqlite/index.ts'
import { mariadbUrl, mysqlKinds, poolOptions } from '../mysql/support/mysql-world.ts'
import { sqliteKinds, type TestClient } from '../sqlite/support/sqlite-world.ts'
import { startDyingReader } from '../support/dying-reader.ts'
import { pg } from '../support/pg.ts'
import { event, openPg, postgresUrl } from '../support/world.ts'

const orders = ['none', 'perKey'] as const
const maxBytes = 1_000_000
/** The number of bytes in a response that the reader survives. */
const survives = 500_000
const size = 12_000_000

/**
 * Tests a record that crashes the process that reads it, and that no claim may return together with others. `dying` is the database of the process that
 * crashes, `database` the one of the others. `enlarge` increases the size of the record.
 */
async function expectCounted<Handle>(
  order: (typeof orders)[number],
  database: Database<Handle>,
  dying: Database<unknown>,
  enlarge: () => unknown,
): Promise<void> {
  const outbox = sqlOutbox(database, { order, logger: silentLogger })
  const message = marshal(event('large', { partitionkey: 'k' }), jsonMarshaler)
  await database.write((transaction) => outbox.append(transaction, [{ destination: 'events', message }]), { logger: silentLogger })
  await enlarge()
  const last = sqlOutbox(dying, { order, logger: silentLogger })
  await expect(last.claim({ limit: 10, maxBytes, lease: 400 })).rejects.toThrow()
  let claimed: readonly ClaimedRecord[] = []
  await vi.waitFor(
    async () => {
      claimed = await outbox.claim({ limit: 10, maxBytes, lease: 60_000 })
      expect(claimed).toHaveLength(1)
    },
    { timeout: 30_000, interval: 100 },
  )
  expect([claimed[0]?.attempts, claimed[0]?.message.data.byteLength]).toEqual([2, size])
}

describe.each(orders)('an attempt is counted for a record that crashes the process which reads it, with order %s', (order) => {
  it('on pg', async () => {
    await using world = await openPg()
    await using reader = await startDyingReader(postgresUrl, survives)
    const direct = new URL(postgresUrl)
    direct.host = `${reader.host}:${reader.port}`
    const pool = new pg.Pool({ connectionString: direct.href, options: `-c search_path=${world.schema}` })
    try {
      const dying = fromPg(pool, { schema: world.schema, order, logger: silentLogger })
      const enlarge = () => world.query(`UPDATE ackord_outbox SET data = decode(repeat('00', ${size}), 'hex')`)
      await expectCounted(order, fromPg(world.pool, { schema: world.schema, order, logger: silentLogger }), dying, enlarge)
    } finally {
      await pool.end()
    }
  })

  it.each(mysqlKinds)('on $name', async ({ name, open }) => {
    await using world = await open()
    await using reader = await startDyingReader(mariadbUrl, survives)
    const { schema } = world
    const options = { ...poolOptions(schema, 3), host: reader.host, port: reader.port }
    const pool = name === 'mysql2' ? createMysql2Pool(options) : createMariadbPool(options as object)
    try {
      const dying = name === 'mysql2' ? fromMysql2(pool as never, { schema }) : fromMariadb(pool as never, { schema })
      const enlarge = () => world.query(`UPDATE ackord_outbox SET data = REPEAT('x', ${size})`)
      await expectCounted(order, world.database, dying, enlarge)
    } finally {
      await pool.end()
    }
  })

  it.each(sqliteKinds)('on $name', async ({ connect, open }) => {
    await using world = await open()
    const client = connect(world.path)
    try {
      const dying = fromSqlite(dyingClient(client), { logger: silentLogger })
      await expectCounted(order, world.database, dying, () => world.client.exec(`UPDATE ackord_outbox SET data = zeroblob(${size})`))
    } finally {
      client.close()
    }
  })
})

/** A client that throws when a large row is read, where a real process would crash. */
function dyingClient(client: TestClient): TestClient {
  return bound(client, {
    prepare(sql: string) {
      const statement = client.prepare(sql)
      return bound(statement, {
        all: (...parameters: unknown[]) => statement.all(...parameters).map(readRow),
        get: (...parameters: unknown[]) => readRow(statement.get(...parameters)),
      })
    },
  })
}

function readRow(row: unknown): unknown {
  const { data } = (row ?? {}) as { readonly data?: Uint8Array | null }
  if ((data?.byteLength ?? 0) > survives) throw new Error('out of memory')
  return row
}

/** Returns a proxy of the object with some methods replaced. */
function bound<T extends object>(target: T, methods: Readonly<Record<string, unknown>>): T {
  return new Proxy(target, {
    get(_, name) {
      const own = methods[String(name)]
      if (own !== undefined) return own
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

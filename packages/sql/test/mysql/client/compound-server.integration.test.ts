import { silentLogger } from '@ackord/core'
import { createConnection } from 'mysql2/promise'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startMariadb } from '../../../../../scripts/servers/index.mjs'
import { CommitUnknownError, transactional } from '../../../src/index.ts'
import { command, event, failureOf, handle } from '../../support/world.ts'
import { isMariadb } from '../support/flavour.ts'
import { type MysqlWorld, mysqlKinds } from '../support/mysql-world.ts'

// A separate server, because these settings apply to all connections.
let server: Awaited<ReturnType<typeof startMariadb>>

/** A user without the privileges that bypass the server's settings. */
const pool = { user: 'app' }

beforeAll(async () => {
  server = await startMariadb()
  await administer("CREATE USER app@'%'", "GRANT ALL ON `ackord\\_%`.* TO app@'%'")
})

afterAll(() => server.stop())

async function administer(...statements: readonly string[]): Promise<void> {
  const connection = await createConnection(server.url)
  for (const sql of statements) await connection.query(sql)
  await connection.end()
}

function place(world: MysqlWorld, id: string, more: () => Promise<unknown> = async () => {}): Promise<unknown> {
  const parts = { inbox: { consumer: 'orders' }, outbox: { destination: 'events' }, transaction: { logger: silentLogger } }
  return handle(
    transactional(world.database, parts),
    async () => {
      await world.run('INSERT INTO orders (id) VALUES (?)', [id])
      await more()
      return [event(`e${id}`)]
    },
    command(id).message,
  )
}

async function stored(world: MysqlWorld): Promise<number[]> {
  return [await world.orders(), await world.inbox(), await world.outbox()]
}

describe.each(mysqlKinds)('the server of $name', ({ open }) => {
  it('may have reached its limit of prepared statements, before and in a transaction', async () => {
    await using world = await open({ max: 1, pool, server: server.url })
    const binary = '\\\' " ` ключ 😀'
    try {
      await administer('SET GLOBAL max_prepared_stmt_count = 0')
      for (const id of ['1', '1', binary]) await place(world, id)
      await administer('SET GLOBAL max_prepared_stmt_count = 1000')
      await place(world, '2', () => administer('SET GLOBAL max_prepared_stmt_count = 0'))
    } finally {
      await administer('SET GLOBAL max_prepared_stmt_count = 1000')
    }
    await place(world, '3')
    expect(await stored(world)).toEqual([4, 4, 4])
    expect(await world.query('SELECT 1 FROM ackord_inbox WHERE id = ?', [Buffer.from(binary)])).toHaveLength(1)
  })

  // On MySQL changing this setting waits for the end of all transactions, so it cannot change during one.
  if (!isMariadb) return

  it('may become read-only before COMMIT: nothing is committed, the outcome is known, and the connection is dropped', async () => {
    await using world = await open({ max: 1, pool, server: server.url })
    const connection = async () => Number((await world.run('SELECT CONNECTION_ID() AS id'))[0]?.['id'])
    const before = await connection()
    try {
      const error = await failureOf(place(world, '1', () => administer('SET GLOBAL read_only = 1')))
      expect(error).not.toBeInstanceOf(CommitUnknownError)
      expect(error).toMatchObject({ code: 'ACKORD_STORE_REFUSES_WRITES', cause: { errno: 1290 } })
      expect((await connection()) === before).toBe(false)
    } finally {
      await administer('SET GLOBAL read_only = 0')
    }
    expect(await stored(world)).toEqual([0, 0, 0])
    await place(world, '1')
    expect(await stored(world)).toEqual([1, 1, 1])
  })
})

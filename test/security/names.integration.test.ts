import { isAckordError, silentLogger } from '@ackord/core'
import type { Database, TableOptions } from '@ackord/sql'
import { fromMysql2 } from '@ackord/sql/mysql'
import { fromPg } from '@ackord/sql/postgres'
import { fromSqlite } from '@ackord/sql/sqlite'
import { createPool } from 'mysql2/promise'
import { describe, expect, it, vi } from 'vitest'
import { openDoor, poolOptions } from '../../packages/sql/test/mysql/support/mysql-world.ts'
import { nodeKind } from '../../packages/sql/test/sqlite/support/sqlite-world.ts'
import { openSchema } from '../../packages/sql/test/support/own-schema.ts'
import { mark, specials } from './odd-texts.ts'
import { useTables } from './use-tables.ts'

vi.setConfig({ testTimeout: 300_000 })

/** Names short enough for a suffix. A sample of each kind suffices, because creating tables is slow. */
const names = specials.filter((name, index) => Buffer.byteLength(name) <= 50 && (index % 3 === 0 || /['"`\\;\0]/.test(name)))

interface NamedWorld<Handle> extends AsyncDisposable {
  databaseOf(options: TableOptions): Database<Handle>
  /** The names of all existing tables. */
  tables(): Promise<string[]>
  canary(): Promise<unknown>
}

function testNames<Handle>(store: string, open: () => Promise<NamedWorld<Handle>>): void {
  describe(`names on ${store}`, () => {
    it(`with every special character are used unchanged or refused: ${names.length} of them`, async () => {
      await using world = await open()
      const before = await world.canary()
      const known = new Set(await world.tables())
      let taken = 0
      for (const name of names) {
        const tables = {
          inbox: `${name}i`,
          outbox: `${name}o`,
          meta: `${name}m`,
          append: `${name}a`,
          valid: `${name}v`,
          relays: `${name}r`,
          partitions: `${name}p`,
          hands: `${name}h`,
          keep: `${name}k`,
          notes: `${name}n`,
          idempotency: `${name}y`,
          process: `${name}s`,
          log: `${name}l`,
          cursors: `${name}c`,
          taken: `${name}t`,
          readers: `${name}e`,
        }
        // MariaDB has an additional table of locks beside the outbox, and the log of PostgreSQL has parts.
        const suffixed = [
          `${tables.outbox}_locks`,
          ...[0, 1, 2, 3].flatMap((part) => [`${tables.log}_${part}`, `${tables.cursors}_${part}`]),
        ]
        try {
          await useTables(world.databaseOf({ names: tables }), name)
          taken += 1
        } catch (error) {
          expect(isAckordError(error), `${JSON.stringify(name)}: ${String(error)}`).toBe(true)
          expect(String(error)).not.toContain('\0')
        }
        const found = await world.tables()
        const fresh = found.filter((table) => !known.has(table))
        for (const table of fresh) {
          expect([...Object.values(tables), ...suffixed]).toContain(table)
          known.add(table)
        }
      }
      expect(taken).toBeGreaterThan(names.length / 2)
      expect(await world.canary()).toEqual(before)
    })
  })
}

testNames('PostgreSQL', async () => {
  const own = await openSchema()
  await own.query(`CREATE TABLE canary (id text); INSERT INTO canary VALUES ('alive')`)
  const pool = own.createPool()
  return {
    databaseOf: (options) => fromPg(pool, { ...options, logger: silentLogger }),
    tables: async () =>
      (await own.query('SELECT table_name AS name FROM information_schema.tables WHERE table_schema = $1', [own.schema])).map(({ name }) =>
        String(name),
      ),
    canary: () => own.query('SELECT * FROM canary'),
    async [Symbol.asyncDispose]() {
      await pool.end()
      await own[Symbol.asyncDispose]()
    },
  }
})

testNames('MariaDB', async () => {
  const door = await openDoor()
  await door.query('CREATE TABLE canary (id VARCHAR(20))')
  await door.query(`INSERT INTO canary VALUES ('alive')`)
  const pool = createPool({ ...poolOptions(door.schema, 5), multipleStatements: true })
  return {
    databaseOf: (options) => fromMysql2(pool, options),
    tables: async () => (await door.query('SHOW TABLES')).map((row) => String(Object.values(row)[0])),
    canary: () => door.query('SELECT * FROM canary'),
    async [Symbol.asyncDispose]() {
      await pool.end()
      await door.close()
    },
  }
})

testNames('SQLite', async () => {
  const world = await nodeKind.open({ empty: true })
  world.client.exec(`CREATE TABLE canary (id TEXT); INSERT INTO canary VALUES ('alive')`)
  return {
    databaseOf: (options) => fromSqlite(world.client, { ...options, logger: silentLogger }),
    tables: async () =>
      world.query(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`).map(({ name }) => String(name)),
    canary: async () => world.query('SELECT * FROM canary'),
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  }
})

it('are marked, so that a leak would be detected', () => {
  expect(names.every((name) => name.startsWith(mark))).toBe(true)
})

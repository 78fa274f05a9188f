import { randomBytes } from 'node:crypto'
import { isAckordError, silentLogger } from '@ackord/core'
import { type Database, sqlOutbox } from '@ackord/sql'
import { fromMysql2 } from '@ackord/sql/mysql'
import { fromPg } from '@ackord/sql/postgres'
import { fromSqlite } from '@ackord/sql/sqlite'
import { createPool } from 'mysql2/promise'
import { describe, expect, it, vi } from 'vitest'
import { openDoor, poolOptions } from '../../packages/sql/test/mysql/support/mysql-world.ts'
import { nodeKind } from '../../packages/sql/test/sqlite/support/sqlite-world.ts'
import { openSchema } from '../../packages/sql/test/support/own-schema.ts'
import { specials } from './odd-texts.ts'
import { useTables } from './use-tables.ts'

vi.setConfig({ testTimeout: 300_000 })

// Schemas are shared by all runs: a unique prefix keeps two runs apart.
const own = `s${randomBytes(4).toString('hex')}`
const odd = specials.filter((_, index) => index % 8 === 0).concat(specials.filter((text) => /['"`\\;\0\n\p{Surrogate}]/u.test(text)))
const names: readonly string[] = [
  '',
  ...new Set([
    own,
    own.toUpperCase(),
    `${own}.ackord_outbox`,
    `${own}.`,
    `"${own}"`,
    `\`${own}\``,
    `${own} `,
    ` ${own}`,
    `\t${own}\tx`,
    `${own}é`,
    `${own}e\u0301`,
    `${own}\u{1f600}`,
    ...[62, 63, 64, 65, 200].map((length) => own.padEnd(length, 'x')),
    // As many characters as a name may have, but more bytes.
    ...[31, 40, 64].map((length) => own.padEnd(length, 'é')),
    ...odd.map((text) => own + text),
  ]),
]

interface SchemaWorld<Handle> extends AsyncDisposable {
  databaseOf(schema: string): Database<Handle>
  /** Schema and name of every table except the server's own. */
  tables(): Promise<(readonly [schema: string, table: string])[]>
  drop(schema: string): Promise<unknown>
}

function testSchemas<Handle>(store: string, open: () => Promise<SchemaWorld<Handle>>, least: number): void {
  describe(`schemas on ${store}`, () => {
    it(`are used by their exact names, or refused before anything is sent: ${names.length} of them`, async () => {
      await using world = await open()
      let taken = 0
      for (const schema of names) {
        const refusal = refusalOf(() => sqlOutbox(world.databaseOf(schema), { logger: silentLogger }))
        if (refusal !== undefined) {
          expect(isAckordError(refusal, 'ACKORD_INVALID_OPTION'), `${JSON.stringify(schema)}: ${String(refusal)}`).toBe(true)
          expect(String(refusal)).toMatch(/^InvalidOptionError: schema /)
          continue
        }
        taken += 1
        const mine = async () => (await world.tables()).filter(([name]) => name.toLowerCase().includes(own))
        expect(await mine(), JSON.stringify(schema)).toEqual([])
        try {
          await useTables(world.databaseOf(schema), 'orders')
          const made = await mine()
          expect(made.length, JSON.stringify(schema)).toBeGreaterThan(3)
          expect([...new Set(made.map(([name]) => name))]).toEqual([schema])
        } finally {
          await world.drop(schema)
        }
      }
      expect(taken).toBeGreaterThanOrEqual(least)
    })
  })
}

function refusalOf(work: () => unknown): unknown {
  try {
    work()
  } catch (error) {
    return error
  }
  return undefined
}

testSchemas(
  'PostgreSQL',
  async () => {
    const door = await openSchema()
    const pool = door.createPool()
    return {
      databaseOf: (schema) => fromPg(pool, { schema, logger: silentLogger }),
      tables: async () =>
        (
          await door.query('SELECT n.nspname AS schema, c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace')
        ).map(({ schema, name }) => [String(schema), String(name)] as const),
      drop: (schema) => door.query(`DROP SCHEMA "${schema.replaceAll('"', '""')}" CASCADE`),
      async [Symbol.asyncDispose]() {
        await pool.end()
        await door[Symbol.asyncDispose]()
      },
    }
  },
  30,
)

testSchemas(
  'MariaDB',
  async () => {
    const door = await openDoor()
    const pool = createPool({ ...poolOptions(door.schema, 5), multipleStatements: true })
    return {
      databaseOf: (schema) => fromMysql2(pool, { schema }),
      tables: async () =>
        (await door.query('SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t FROM information_schema.TABLES')).map(
          ({ s, t }) => [String(s), String(t)] as const,
        ),
      drop: (schema) => door.query(`DROP DATABASE \`${schema.replaceAll('`', '``')}\``),
      async [Symbol.asyncDispose]() {
        await pool.end()
        await door.close()
      },
    }
  },
  30,
)

it('schemas on MariaDB that end in white space are refused before anything is sent', async () => {
  const pool = createPool(poolOptions('test', 1))
  const refusals = ['\t', '\n', '\v', '\f', '\r'].map((end) => refusalOf(() => sqlOutbox(fromMysql2(pool, { schema: own + end }))))
  await pool.end()
  expect(refusals.map((refusal) => isAckordError(refusal, 'ACKORD_INVALID_OPTION'))).toEqual([true, true, true, true, true])
})

// SQLite has a single schema with a fixed name.
testSchemas(
  'SQLite',
  async () => {
    const world = await nodeKind.open({ empty: true })
    return {
      databaseOf: (schema) => fromSqlite(world.client, { schema, logger: silentLogger }),
      tables: async () =>
        world.query('SELECT schema, name FROM pragma_table_list').map(({ schema, name }) => [String(schema), String(name)]),
      drop: async () => {},
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  },
  0,
)

import { jsonMarshaler, marshal, silentLogger } from '@ackord/core'
import { expect, it } from 'vitest'
import { sqlOutbox } from '../src/index.ts'
import { openMysql2 } from './mysql/support/mysql-world.ts'
import { event, openPg, openPglite } from './support/world.ts'

const kinds = [
  { name: 'pg', open: openPg },
  { name: 'PGlite', open: openPglite },
  { name: 'mysql2', open: openMysql2 },
]

const states = [
  'SELECT * FROM orders',
  'SELECT * FROM ackord_inbox',
  'SELECT * FROM ackord_outbox',
  'SELECT * FROM ackord_relays',
  'SELECT * FROM ackord_partitions ORDER BY 1',
  'SELECT * FROM ackord_meta ORDER BY 1',
]

it.each(kinds)('the next test on $name finds the database unchanged after an earlier test used it', async ({ open }) => {
  const look = async () => {
    await using world = await open()
    const before = []
    for (const state of states) before.push(await world.query(state))
    const outbox = sqlOutbox(world.database as never, { order: 'perKey', logger: silentLogger })
    const message = marshal(event('e-1', { partitionkey: 'k' }), jsonMarshaler)
    await world.database.write((handle) => outbox.append(handle as never, [{ destination: 'events', message }]))
    // The relay never leaves, so its member row and the record's sequence number remain in the database.
    const claimed = await outbox.claim({ limit: 1, lease: 60_000 })
    await world.query("INSERT INTO orders (id) VALUES ('1')")
    await world.query("UPDATE ackord_meta SET version = 9 WHERE name = 'schema'")
    return { schema: world.schema, before, ids: claimed.map(({ id }) => id) }
  }
  const first = await look()
  expect(first.ids).toHaveLength(1)
  expect(await look()).toEqual(first)
})

it.each(kinds)('no test on $name gets a database in which an earlier test changed more than rows', async ({ name, open }) => {
  const changes = [
    'ALTER TABLE orders ADD COLUMN more INT',
    'CREATE TABLE more (n INT)',
    'CREATE INDEX more ON orders (note)',
    'DROP TABLE ackord_inbox',
    name === 'mysql2'
      ? "CREATE TRIGGER more BEFORE INSERT ON orders FOR EACH ROW SET NEW.note = 'x'"
      : "CREATE FUNCTION more() RETURNS int LANGUAGE sql AS 'SELECT 1'",
  ]
  const seen = new Set<string>()
  for (const change of changes) {
    await using world = await open()
    expect(seen).not.toContain(world.schema)
    seen.add(world.schema)
    await world.query(change)
  }
})

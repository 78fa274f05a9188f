import { Message, rootContext, silentLogger } from '@ackord/core'
import type { ClaimedRecord, NewOutboxRecord } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import type { InFlightRow, OwnedClaimOptions, ReadPosition } from '../../../src/contract/ownership-statements.ts'
import { tablesOf } from '../../../src/contract/tables.ts'
import { createSchema, sqlOutbox, transactionMiddleware, validateSchema } from '../../../src/index.ts'
import { keyLocksOf } from '../../../src/mysql/append.ts'
import { mysqlDialect } from '../../../src/mysql/dialect.ts'
import { migrations } from '../../../src/mysql/migrations.ts'
import {
  anyKeySql,
  contentsSql,
  firstKeysSql,
  nextKeySql,
  nextRowsSql,
  retriedSql,
  sweptSql,
  windowEndSql,
} from '../../../src/mysql/ordering/owned-claim.ts'
import { fenceSql, ownedRowsSql } from '../../../src/mysql/ordering/ownership.ts'
import { type SqlPart, splitScript } from '../../../src/mysql/sql-text.ts'
import { partitionOf } from '../../../src/records/outbox-row.ts'
import { command, event, failureOf, handle } from '../../support/world.ts'
import { isMariadb, numbersTo } from '../support/flavour.ts'
import { type MysqlWorld, mysqlKinds, openMysql2 } from '../support/mysql-world.ts'

const ordered = { logger: silentLogger, order: 'perKey' } as const
const tables = tablesOf(mysqlDialect, {}, {})
const table = tables.outbox

function keyed(key: string, number: number): NewOutboxRecord {
  return {
    destination: 'events',
    message: new Message(new Uint8Array([1]), { ...event(`${key}/${number}`).attributes, partitionkey: key }),
  }
}

/** Appends in a separate transaction, even if the caller is in one. */
async function append({ database }: MysqlWorld, ...records: readonly NewOutboxRecord[]): Promise<void> {
  const store = sqlOutbox(database, ordered)
  await database.write(async (transaction) => await store.append(transaction, records), { context: rootContext() })
}

function idsOf(claimed: readonly ClaimedRecord[]): (string | undefined)[] {
  return claimed.map(({ message }) => message.id)
}

const published = ({ id, token }: ClaimedRecord) => ({ id, token, result: 'published' as const })

describe.each(mysqlKinds)('order per key on $name', ({ open }) => {
  it('requires the tables of version 2, and finds records stored before them', async () => {
    await using world = await open({ empty: true })
    const { database } = world
    const { meta, setVersion } = mysqlDialect.store.schema
    const [first] = migrations
    for (const sql of splitScript(`${meta(tables)};${first?.sql(tables)};${setVersion(tables, 1, 1)}`)) await world.query(sql)
    const plain = sqlOutbox(database, { logger: silentLogger })
    const records = [1, 2, 3].flatMap((number) => [keyed('a', number), keyed('b', number)])
    await database.write(async (transaction) => await plain.append(transaction, records))
    expect(await failureOf(sqlOutbox(database, ordered).claim({ limit: 10, lease: 1000 }))).toMatchObject({ code: 'ACKORD_SCHEMA' })
    expect(await failureOf(append(world, keyed('a', 4)))).toMatchObject({ code: 'ACKORD_SCHEMA' })
    expect(await failureOf(validateSchema(database))).toMatchObject({ problem: 'older' })

    await createSchema(database)
    await append(world, keyed('a', 4))
    const claimed = await sqlOutbox(database, ordered).claim({ limit: 10, lease: 60_000 })
    expect(idsOf(claimed)).toEqual(['a/1', 'b/1', 'a/2', 'b/2', 'a/3', 'b/3', 'a/4'])
    expect(await world.query('SELECT version, oldest_reader FROM ackord_meta')).toEqual([{ version: 6, oldest_reader: 1 }])
  })

  it('numbers the rows of a key in the order of their commits, whatever snapshots the writers have', async () => {
    await using world = await open({ max: 12 })
    const { database } = world
    const store = sqlOutbox(database, ordered)
    await world.query('CREATE TABLE commits (n INT PRIMARY KEY AUTO_INCREMENT, id VARCHAR(20), name VARCHAR(20))')
    await world.query("INSERT INTO commits (id, name) VALUES ('0', '')")
    const writers = Array.from({ length: 8 }, (_, writer) =>
      (async () => {
        for (let number = 1; number <= 15; number += 1) {
          const keys = writer % 2 === 0 ? ['a', 'b'] : ['b', 'a']
          await handle(transactionMiddleware(database, { logger: silentLogger, isolation: 'repeatable read', retries: 20 }), async () => {
            const transaction = database.executor(undefined, { required: true })
            // Takes a snapshot before the other writers commit.
            await world.run('SELECT COUNT(*) AS n FROM ackord_outbox', [], transaction)
            const id = `${writer}.${number}`
            const records = keys.map((key) => ({
              ...keyed(key, 0),
              message: new Message(new Uint8Array([1]), { ...event(`${key} ${id}`).attributes, partitionkey: key }),
            }))
            await store.append(transaction, records)
            // The transaction holds the locks of its keys from here until its commit, so these rows have the order of the commits.
            for (const key of keys) await world.run('INSERT INTO commits (id, name) VALUES (?, ?)', [`${key} ${id}`, key], transaction)
            return []
          })
        }
      })(),
    )
    await Promise.all(writers)
    for (const key of ['a', 'b']) {
      const stored = await world.query('SELECT id FROM ackord_outbox WHERE ordering_key = ? ORDER BY seq', [key])
      const committed = await world.query('SELECT id FROM commits WHERE name = ? ORDER BY n', [key])
      expect(stored).toHaveLength(120)
      expect(stored).toEqual(committed)
    }
  })

  it('makes a writer wait for writers of the same key, and for no others', async () => {
    await using world = await open()
    const { database } = world
    const store = sqlOutbox(database, ordered)
    // A key in another partition than `a`.
    const other = Array.from({ length: 10 }, (_, n) => `b${n}`).find((key) => partitionOf(key) !== partitionOf('a')) ?? ''
    const order: string[] = []
    let waiting: Promise<void> = Promise.resolve()
    await database.write(async (transaction) => {
      await store.append(transaction, [keyed('a', 1)])
      waiting = append(world, keyed('a', 2)).then(() => void order.push('a/2'))
      const waits = `SELECT 1 FROM information_schema.PROCESSLIST WHERE DB = ? AND INFO LIKE 'UPDATE %locks%'`
      while ((await world.query(waits, [world.schema])).length === 0);
      await append(world, keyed(other, 1))
      order.push(`${other}/1`)
      // Relays do not wait for writers either.
      expect(idsOf(await sqlOutbox(database, ordered).claim({ limit: 10, lease: 60_000 }))).toEqual([`${other}/1`])
      order.push('a/1')
    })
    await waiting
    expect(order).toEqual([`${other}/1`, 'a/1', 'a/2'])
    const numbers = await world.query("SELECT id FROM ackord_outbox WHERE ordering_key = 'a' ORDER BY seq")
    expect(numbers.map(({ id }) => id)).toEqual(['a/1', 'a/2'])
  })

  it('shares the keys among ten members that claim at once, each owned by one member and in order', { timeout: 60_000 }, async () => {
    await using world = await open({ max: 20 })
    const keys = Array.from({ length: 300 }, (_, index) => `k${index}`)
    await append(world, ...keys.flatMap((key) => [keyed(key, 1), keyed(key, 2)]))
    const members = Array.from({ length: 10 }, () => sqlOutbox(world.database, ordered))
    const arrived: (string | undefined)[] = []
    for (let round = 0; arrived.length < 600; round += 1) {
      expect(round).toBeLessThan(40)
      const hands = await Promise.all(members.map((member) => member.claim({ limit: 50, lease: 60_000 })))
      const holders = hands.flatMap((claimed) => [...new Set(claimed.map(({ message }) => message.attributes['partitionkey']))])
      expect(new Set(holders).size).toBe(holders.length)
      const settled = await Promise.all(members.map((member, index) => member.settle((hands[index] ?? []).map(published))))
      expect(settled.flat().every((result) => result === 'applied')).toBe(true)
      arrived.push(...hands.flatMap(idsOf))
    }
    for (const key of keys) expect(arrived.filter((id) => id?.startsWith(`${key}/`))).toEqual([`${key}/1`, `${key}/2`])
  })

  it('fences a member whose lease has expired, and counts its records in flight before another member claims them', async () => {
    await using world = await open()
    await append(world, keyed('a', 1), keyed('a', 2))
    const [stale, owner] = [sqlOutbox(world.database, ordered), sqlOutbox(world.database, ordered)]
    const old = await stale.claim({ limit: 1, lease: 60_000 })
    await world.query('UPDATE ackord_relays SET alive_until = alive_until - INTERVAL 2 MINUTE')
    expect(await stale.settle(old.map(published))).toEqual(['lost'])
    const fresh = await owner.claim({ limit: 10, lease: 60_000 })
    expect(fresh.map(({ message, attempts }) => [message.id, attempts])).toEqual([
      ['a/1', 2],
      ['a/2', 1],
    ])
    expect(await stale.settle(old.map(published))).toEqual(['lost'])
    expect(await owner.settle(fresh.map(published))).toEqual(['applied', 'applied'])
  })
})

describe('the table of locks', () => {
  it('has a name that is short enough, in the schema of its outbox', () => {
    expect(keyLocksOf('`ackord_outbox`')).toBe('`ackord_outbox_locks`')
    expect(keyLocksOf('`my``db`.`out``box`')).toBe('`my``db`.`out``box_locks`')
    const long = keyLocksOf(`\`db\`.\`${'x'.repeat(64)}\``)
    expect(long).toMatch(/^`db`\.`ackord_locks_[0-9a-f]{32}`$/)
    expect(keyLocksOf(`\`db\`.\`${'x'.repeat(63)}y\``)).not.toBe(long)
  })
})

describe('the claim with order per key on 150,000 records', () => {
  const place: ReadPosition = { destination: 'events', floor: '0', sweep: ['0', '9'], key: undefined }
  const options: OwnedClaimOptions = {
    member: '00000000-0000-4000-8000-000000000001',
    partitions: [...Array(128).keys()],
    limit: 10,
    maxBytes: 16_777_216,
    spent: 0,
    destinations: undefined,
    except: [],
    behindParked: 'kept',
    discover: true,
    positions: [place],
    window: 100,
    jumps: 10,
    inFlight: [],
    entry: { number: 1, done: [], carried: [] },
  }
  const held: InFlightRow = { seq: '1', state: 'ready', destination: 'events', partition: 1, epoch: '1', key: 'hot', attempts: 0 }
  const head = { ...held, key: 'hot', parked: undefined }

  async function fill(world: MysqlWorld, { key, partition, count }: { key: string; partition: string; count: number }): Promise<void> {
    await world.query(`INSERT INTO ${table} (state, destination, id, type, ordering_key, \`partition\`, data, attributes, created_at, available_at)
SELECT 'ready', 'events', CONCAT('e', seq), 't', ${key}, ${partition}, 'x', '{"id":"e","type":"t","source":"/s","specversion":"1.0"}', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)
FROM ${numbersTo(count)}`)
  }

  async function plansOf(world: MysqlWorld, { sql, parameters }: SqlPart) {
    const rows = await world.query(`EXPLAIN FORMAT = TRADITIONAL ${sql}`, [...parameters])
    return rows
      .filter((row) => row['table'] === 'o' || row['table'] === 'p')
      .map((row) => ({ table: row['table'], key: row['key'], type: row['type'], extra: String(row['Extra']) }))
  }

  async function readsOf(world: MysqlWorld, work: () => Promise<unknown>): Promise<number> {
    const count = async () => {
      const rows = await world.run("SHOW SESSION STATUS LIKE 'Handler_read%'")
      return rows.reduce((sum, row) => sum + Number(row['Value']), 0)
    }
    const before = await count()
    await work()
    const after = await count()
    return after - before - ((await count()) - after)
  }

  it('reads little more than it claims, beside a key with 50,000 records and 50,000 without a key', { timeout: 120_000 }, async () => {
    await using world = await openMysql2({ max: 1, fresh: true })
    await fill(world, { key: "'hot'", partition: '1', count: 50_000 })
    await fill(world, { key: 'NULL', partition: 'seq MOD 256', count: 50_000 })
    await fill(world, { key: "CONCAT('k', seq MOD 500)", partition: 'seq MOD 500 MOD 256', count: 50_000 })
    await world.query('INSERT INTO ackord_relays VALUES (?, UTC_TIMESTAMP(6) + INTERVAL 1 HOUR)', [options.member])
    await world.query('UPDATE ackord_partitions SET owner = ?, epoch = 1', [options.member])
    for (const analyze of [false, true]) {
      if (analyze) await world.query(`ANALYZE TABLE ${table}`)
      const seek = { partition: 1, after: 'hot' }
      const ask = { head, after: '1', max: 5 }
      const sorted = { extra: expect.not.stringMatching(/filesort|temporary/) }
      for (const part of [
        anyKeySql(table, 'ready', 'events'),
        firstKeysSql(table, 'ready', 'events', options, 100),
        nextKeySql(table, 'ready', 'events', options, seek),
        nextKeySql(table, 'waiting', 'events', options, { partition: 1, after: undefined }),
        nextRowsSql(table, 'ready', ask, 0),
      ]) {
        for (const plan of await plansOf(world, part)) {
          // MySQL sorts the parked records of the requested key, of which there are few.
          const mayBeSorted = !isMariadb && plan.table === 'p'
          expect(plan).toMatchObject({ key: 'ordered', ...(mayBeSorted ? {} : sorted) })
        }
      }
      expect(await plansOf(world, retriedSql(table, options, place, 5, 0))).toEqual([expect.objectContaining({ key: 'due', ...sorted })])
      for (const part of [
        sweptSql(table, options, place, 5, 0),
        windowEndSql(table, options, place, 0),
        contentsSql(table, [held]),
        ownedRowsSql(tables, options.member, [held]),
      ]) {
        const [plan] = (await plansOf(world, part)).filter((one) => one.key === 'PRIMARY' && one.table === 'o')
        expect(plan).toMatchObject({ key: 'PRIMARY', ...sorted })
      }
      expect(await plansOf(world, fenceSql(tables, options.member, [held]))).toEqual([expect.objectContaining({ key: 'PRIMARY' })])
      const jump = nextKeySql(table, 'ready', 'events', options, { partition: 1, after: 'gzz' })
      expect(await readsOf(world, () => world.run(jump.sql, [...jump.parameters]))).toBeLessThan(10)
    }

    await world.query('DELETE FROM ackord_relays')
    const store = sqlOutbox(world.database, ordered)
    const keys = new Set<unknown>()
    for (let round = 1; round <= 6; round += 1) {
      let claimed: readonly ClaimedRecord[] = []
      const reads = await readsOf(world, async () => {
        claimed = await store.claim({ limit: 500, lease: 60_000 })
      })
      expect(claimed).toHaveLength(500)
      // Counts the windows, the seeks and the returned records, not the 50,000 skipped ones. The first claim also discovers the keys.
      expect(reads).toBeLessThan(25_000)
      for (const { id } of claimed) keys.add(id)
      await store.settle(claimed.map(published))
    }
    expect(keys.size).toBe(3000)
    const left = await world.query(`SELECT ordering_key, COUNT(*) AS n FROM ${table} WHERE ordering_key IS NOT NULL GROUP BY ordering_key`)
    // Records of every key were claimed.
    expect(left.filter(({ ordering_key: key, n }) => Number(n) >= (key === 'hot' ? 50_000 : 100))).toEqual([])
  })
})

describe('a message with order per key', () => {
  it('takes one more statement, and only if an event has a key', async () => {
    await using world = await openMysql2({ max: 1, fresh: true })
    const { database } = world
    const statements = async (records: readonly NewOutboxRecord[]) => {
      const count = async () => Number((await world.run("SHOW SESSION STATUS LIKE 'Questions'"))[0]?.['Value'])
      const before = await count()
      await handle(
        transactionMiddleware(database, { logger: silentLogger }),
        async () => {
          await sqlOutbox(database, ordered).append(database.executor(undefined, { required: true }), records)
          return []
        },
        command('1').message,
      )
      return (await count()) - before - 1
    }
    const free: NewOutboxRecord = { destination: 'events', message: new Message(new Uint8Array([1]), event('free').attributes) }
    await statements([free])
    const without = await statements([free])
    expect(await statements([keyed('a', 1), keyed('b', 1), free])).toBe(without + 1)
  })
})

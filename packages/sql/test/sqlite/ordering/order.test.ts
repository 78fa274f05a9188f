import { Message, silentLogger } from '@ackord/core'
import type { ClaimedRecord, NewOutboxRecord } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import type { OwnedClaimOptions, ReadPosition } from '../../../src/contract/ownership-statements.ts'
import { tablesOf } from '../../../src/contract/tables.ts'
import { createSchema, sqlOutbox, validateSchema } from '../../../src/index.ts'
import { sqliteDialect } from '../../../src/sqlite/dialect.ts'
import { fromSqlite } from '../../../src/sqlite/index.ts'
import { migrations } from '../../../src/sqlite/migrations.ts'
import { followSql, freshSql, retriedSql, statusSql, sweptSql, walkSql, windowEndSql } from '../../../src/sqlite/ordering/owned-claim.ts'
import { event, failureOf } from '../../support/world.ts'
import { nodeKind, type SqliteWorld, sqliteKinds } from '../support/sqlite-world.ts'

const ordered = { logger: silentLogger, order: 'perKey' } as const
const tables = tablesOf(sqliteDialect, {}, {})

function keyed(key: string, number: number, destination = 'events'): NewOutboxRecord {
  return { destination, message: new Message(new Uint8Array([1]), { ...event(`${key}/${number}`).attributes, partitionkey: key }) }
}

async function append({ database }: SqliteWorld, ...records: readonly NewOutboxRecord[]): Promise<void> {
  await database.write(async (transaction) => await sqlOutbox(database, ordered).append(transaction, records))
}

function idsOf(claimed: readonly ClaimedRecord[]): (string | undefined)[] {
  return claimed.map(({ message }) => message.id)
}

describe.each(sqliteKinds)('order per key on $name', ({ open }) => {
  it('requires the tables of version 2, and finds records stored before them', async () => {
    await using world = await open({ empty: true })
    const { database } = world
    const { meta, setVersion } = sqliteDialect.store.schema
    const [first] = migrations
    world.client.exec(`${meta(tables)};${first?.sql(tables)};${setVersion(tables, 1, 1)}`)
    await append(world, ...[1, 2, 3].flatMap((number) => [keyed('a', number), keyed('b', number)]))
    expect(await failureOf(sqlOutbox(database, ordered).claim({ limit: 10, lease: 1000 }))).toMatchObject({ code: 'ACKORD_SCHEMA' })
    expect(await failureOf(validateSchema(database))).toMatchObject({ problem: 'older' })

    await createSchema(database)
    const claimed = await sqlOutbox(database, ordered).claim({ limit: 10, lease: 60_000 })
    expect(idsOf(claimed)).toEqual(['a/1', 'b/1', 'a/2', 'b/2', 'a/3', 'b/3'])
    // Code of version 1 can still read the tables.
    expect(world.query('SELECT version, oldest_reader FROM ackord_meta')).toEqual([{ version: 6, oldest_reader: 1 }])
  })

  it('shares one file among ten members that claim at once, each key owned by one member', async () => {
    await using world = await open()
    const keys = Array.from({ length: 300 }, (_, index) => `k${index}`)
    await append(world, ...keys.flatMap((key) => [keyed(key, 1), keyed(key, 2)]))
    const members = Array.from({ length: 10 }, () => sqlOutbox(fromSqlite(world.connect(), { logger: silentLogger }), ordered))
    const published: (string | undefined)[] = []
    for (let round = 0; published.length < 600; round += 1) {
      expect(round).toBeLessThan(30)
      const hands = await Promise.all(members.map((member) => member.claim({ limit: 50, lease: 60_000 })))
      const holders = hands.flatMap((claimed) => [...new Set(claimed.map(({ message }) => message.attributes['partitionkey']))])
      expect(new Set(holders).size).toBe(holders.length)
      const settled = await Promise.all(
        members.map((member, index) =>
          member.settle((hands[index] ?? []).map(({ id, token }) => ({ id, token, result: 'published' as const }))),
        ),
      )
      expect(settled.flat().every((result) => result === 'applied')).toBe(true)
      published.push(...hands.flatMap(idsOf))
    }
    for (const key of keys) expect(published.filter((id) => id?.startsWith(`${key}/`))).toEqual([`${key}/1`, `${key}/2`])
    const owners = world.query('SELECT owner, count(*) AS n FROM ackord_partitions GROUP BY owner')
    expect(owners.map(({ n }) => Number(n)).sort((one, other) => one - other)).toEqual([22, ...Array.from({ length: 9 }, () => 26)])
  })
})

describe('the claim with order per key', () => {
  const place: ReadPosition = { destination: 'events', floor: '0', sweep: ['0', '9'], key: undefined }
  const options: OwnedClaimOptions = {
    member: 'm',
    partitions: [1, 2],
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
  const head = { destination: 'events', partition: 1, key: 'a', seq: '1', state: 'ready', attempts: 0, parked: undefined }

  it.each([false, true])('reads indexes only, whether or not the file was analysed (%s)', async (analysed) => {
    await using world = await nodeKind.open()
    if (analysed) {
      await append(world, ...Array.from({ length: 500 }, (_, index) => keyed(`k${index % 50}`, index)))
      world.client.exec('ANALYZE')
    }
    const plan = (sql: string) =>
      world.query(`EXPLAIN QUERY PLAN ${sql}`, ...Array.from(sql.matchAll(/\?/g), () => null)).map(({ detail }) => String(detail))
    const jump = 'SEARCH next USING INDEX ackord_outbox_keys'
    const walk = plan(walkSql(tables, options, { position: place, after: undefined, upTo: undefined, max: 1, jumps: 1 }).sql)
    expect(walk).toContain(`${jump} (destination=? AND (partition,ordering_key)>(?,?))`)
    expect(walk).toContain('SEARCH p USING COVERING INDEX ackord_outbox_parked_keys (destination=? AND partition=? AND ordering_key=?)')
    const follow = plan(followSql(tables, options, [{ head, after: '1', max: 1 }]).sql)
    expect(follow).toContain(`${jump} (destination=? AND partition=? AND ordering_key=? AND seq>?)`)
    expect(plan(freshSql(tables, options, place, 1).sql)).toContain('SEARCH o USING INDEX ackord_outbox_ready (destination=? AND seq>?)')
    expect(plan(windowEndSql(tables, options, place).sql)).toContain(
      'SEARCH o USING COVERING INDEX ackord_outbox_ready (destination=? AND seq>?)',
    )
    expect(plan(sweptSql(tables, options, place, 1).sql)).toContain(
      'SEARCH o USING INDEX ackord_outbox_ready (destination=? AND seq>? AND seq<?)',
    )
    expect(plan(retriedSql(tables, options, place, 1).sql)).toContain(
      'SEARCH o USING INDEX ackord_outbox_waiting_plain (destination=? AND available_at<?)',
    )
    expect(plan(statusSql(tables, options))).toContain('SCAN o USING INDEX ackord_outbox_keys')
    const all = [walk, follow].flat()
    expect(all.filter((step) => /SCAN (next|o|p|head)\b|TEMP B-TREE FOR ORDER BY.*next/.test(step))).toEqual([])
  })

  it('steps over a key with 50,000 records at the head', async () => {
    await using world = await nodeKind.open()
    world.client.exec(`WITH RECURSIVE numbers(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < 50000)
INSERT INTO ackord_outbox (state, destination, id, type, ordering_key, partition, data, attributes, available_at)
SELECT 'ready', 'events', 'hot/' || n, 't', 'hot', 0, x'01', '{"id":"e","type":"t","source":"/s","specversion":"1.0"}', 0 FROM numbers`)
    const others = Array.from({ length: 200 }, (_, index) => `k${index}`)
    await append(world, ...others.slice(0, 10).map((key) => keyed(key, 1)))
    const part = { position: place, after: undefined, upTo: undefined, max: 1000, jumps: 1000 }
    const { sql, parameters } = walkSql(tables, { ...options, partitions: [...Array(256).keys()] }, part)
    expect(world.query(sql, ...parameters)).toHaveLength(11)
    await append(world, ...others.slice(10).map((key) => keyed(key, 1)))
    const claimed = await sqlOutbox(world.database, ordered).claim({ limit: 300, lease: 60_000 })
    expect(claimed).toHaveLength(300)
    expect(new Set(idsOf(claimed).filter((id) => id?.startsWith('k'))).size).toBe(200)
  })
})

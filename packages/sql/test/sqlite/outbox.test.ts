import { Message, silentLogger } from '@ackord/core'
import type { NewOutboxRecord } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { cleanInbox, sqlOutbox, transactional } from '../../src/index.ts'
import { deletePublishedSql, listSql } from '../../src/sqlite/admin.ts'
import { destinationsSql, leaseSql, pickSql } from '../../src/sqlite/claims.ts'
import { cleanInboxSql } from '../../src/sqlite/inbox.ts'
import { byLease, publishedSql } from '../../src/sqlite/settle.ts'
import { command, event, failureOf, handle } from '../support/world.ts'
import { nodeKind, type SqliteWorld, sqliteKinds } from './support/sqlite-world.ts'

const quiet = { logger: silentLogger }

function recordOf(id: string, destination = 'events', data: Uint8Array = new Uint8Array([1])): NewOutboxRecord {
  return { destination, message: new Message(data, event(id).attributes) }
}

async function append({ database }: SqliteWorld, ...records: readonly NewOutboxRecord[]): Promise<void> {
  await database.write(async (transaction) => await sqlOutbox(database, { maxSize: 20_000_000, ...quiet }).append(transaction, records))
}

describe.each(sqliteKinds)('the outbox on $name', ({ open }) => {
  it('never reuses a seq, even if the last record is deleted', async () => {
    await using world = await open()
    const outbox = sqlOutbox(world.database, quiet)
    const seqs: string[] = []
    for (const id of ['e1', 'e2', 'e3']) {
      await append(world, recordOf(id))
      const claimed = await outbox.claim({ limit: 1, lease: 1000 })
      seqs.push(...claimed.map((record) => record.id))
      await outbox.settle(claimed.map(({ id: claim, token }) => ({ id: claim, token, result: 'published' })))
      expect(world.count('ackord_outbox')).toBe(0)
    }
    expect(seqs).toEqual(['1', '2', '3'])
  })

  it('stores more records at once than fit into a statement, in order', async () => {
    await using world = await open()
    const ids = Array.from({ length: 3500 }, (_, index) => `e${index}`)
    await append(world, ...ids.map((id) => recordOf(id)))
    const outbox = sqlOutbox(world.database, quiet)
    const claimed = await outbox.claim({ limit: 5000, lease: 60_000 })
    expect(claimed.map(({ message }) => message.id)).toEqual(ids)
    const outcomes = claimed.map(({ id, token }) => ({ id, token, result: 'published' as const }))
    expect(new Set(await outbox.settle(outcomes))).toEqual(new Set(['applied']))
    expect(world.count('ackord_outbox')).toBe(0)
  })

  it('returns empty data, ten megabytes and all byte values unchanged', async () => {
    await using world = await open()
    const payloads = [
      new Uint8Array(0),
      new Uint8Array(new ArrayBuffer(0)),
      new Uint8Array(10_000_000).fill(7),
      Uint8Array.from({ length: 256 }, (_, byte) => byte),
    ]
    await append(world, ...payloads.map((data, index) => recordOf(`e${index}`, 'events', data)))
    const claimed = await sqlOutbox(world.database, quiet).claim({ limit: 10, lease: 60_000 })
    expect(new Set(claimed.map(({ message }) => message.data.constructor))).toEqual(new Set([Uint8Array]))
    for (const [index, { message }] of claimed.entries()) {
      expect(Buffer.compare(message.data, payloads[index] ?? new Uint8Array([0]))).toBe(0)
    }
  })

  it('claims a share for each destination, and redistributes unused shares to destinations with more records', async () => {
    await using world = await open()
    const many = Array.from({ length: 100 }, (_, index) => recordOf(`a${index}`, 'a'))
    await append(world, ...many, recordOf('b0', 'b'), recordOf('b1', 'b'), recordOf('c0', 'c'))
    const claimed = await sqlOutbox(world.database, quiet).claim({ limit: 30, lease: 60_000 })
    const counts = new Map<string, number>()
    for (const { destination } of claimed) counts.set(destination, (counts.get(destination) ?? 0) + 1)
    expect(Object.fromEntries(counts)).toEqual({ a: 27, b: 2, c: 1 })
  })

  it('uses at most half of a claim for retries, unless there are no other records', async () => {
    await using world = await open()
    const outbox = sqlOutbox(world.database, quiet)
    await append(world, ...Array.from({ length: 20 }, (_, index) => recordOf(`old${index}`)))
    const failed = await outbox.claim({ limit: 20, lease: 60_000 })
    await outbox.settle(failed.map(({ id, token }) => ({ id, token, result: 'failed', error: 'x', retryAfter: 0 })))
    await append(world, ...Array.from({ length: 7 }, (_, index) => recordOf(`new${index}`)))
    const counts = async () => {
      const claimed = await outbox.claim({ limit: 10, lease: 60_000 })
      const retried = claimed.filter(({ attempts }) => attempts > 1).length
      return { retried, fresh: claimed.length - retried }
    }
    expect(await counts()).toEqual({ retried: 5, fresh: 5 })
    expect(await counts()).toEqual({ retried: 8, fresh: 2 })
    expect(await counts()).toEqual({ retried: 7, fresh: 0 })
  })

  it('parks a record whose attributes are not JSON, and continues with the others', async () => {
    await using world = await open()
    await append(world, recordOf('e1'), recordOf('e2'))
    world.query("UPDATE ackord_outbox SET attributes = '{oops' WHERE id = 'e1'")
    const outbox = sqlOutbox(world.database, quiet)
    const claimed = await outbox.claim({ limit: 10, lease: 60_000 })
    expect(claimed.map(({ message }) => message.id)).toEqual(['e2'])
    const { records } = await outbox.list({ state: 'parked' }, { limit: 10 })
    expect(records).toMatchObject([{ lastError: expect.stringMatching(/not a JSON object/), message: { id: 'e1' } }])
  })

  it('enforces its state machine with checks, and rejects other types', async () => {
    await using world = await open()
    await append(world, recordOf('e1'))
    for (const change of [
      "state = 'gone'",
      "state = 'parked'",
      'parked_at = 1',
      "state = 'published'",
      'lease_until = 1',
      "lease_token = 'x'",
      "state = 'parked', parked_at = 1, lease_token = 'x', lease_until = 1",
      'attempts = -1',
      'data = NULL',
      "data = 'text'",
      "available_at = 'soon'",
      'seq = NULL',
    ]) {
      expect(() => world.query(`UPDATE ackord_outbox SET ${change}`), change).toThrow()
    }
    expect(() => world.query("UPDATE ackord_inbox SET received_at = 'x'")).not.toThrow()
  })

  it('deletes a bounded number of messages received before the window', async () => {
    await using world = await open()
    const { database } = world
    const middleware = transactional(database, { inbox: { consumer: 'orders' }, outbox: { destination: 'events' }, transaction: quiet })
    for (const id of ['1', '2', '3', '4']) await handle(middleware, async () => [], command(id).message)
    world.query("UPDATE ackord_inbox SET received_at = received_at - 60000 WHERE id <> '4'")
    expect(await cleanInbox(database, { window: 30_000, limit: 2 })).toBe(2)
    expect(await cleanInbox(database, { window: 30_000, limit: 2 })).toBe(1)
    expect(await cleanInbox(database, { window: 30_000 })).toBe(0)
    expect(world.query('SELECT id FROM ackord_inbox')).toEqual([{ id: '4' }])
  })
})

describe('the statements', () => {
  it('use the indexes made for them, whatever else is in the table', async () => {
    await using world = await nodeKind.open()
    const plan = (sql: string) => {
      const count = sql.split('?').length - 1
      const rows = world.query(`EXPLAIN QUERY PLAN ${sql}`, ...Array.from({ length: count }, () => '["1"]'))
      return rows.map(({ detail }) => String(detail)).join('\n')
    }
    const outbox = '"ackord_outbox"'
    for (const sql of [destinationsSql(outbox, 'ready'), destinationsSql(outbox, 'waiting')]) {
      expect(plan(sql)).not.toMatch(/SCAN ackord_outbox(?! USING COVERING INDEX)|SCAN o\b|TEMP B-TREE/)
    }
    expect(plan(pickSql(outbox, 'ready', undefined))).toMatch(/^SEARCH ackord_outbox USING INDEX ackord_outbox_ready \(destination=\?\)$/)
    expect(plan(pickSql(outbox, 'waiting', 'only'))).toMatch(
      /^SEARCH ackord_outbox USING INDEX ackord_outbox_waiting \(destination=\? AND available_at<\?\)$/,
    )
    expect(plan(leaseSql(outbox))).toMatch(/^SEARCH ackord_outbox USING INTEGER PRIMARY KEY \(rowid=\?\)/)
    expect(plan(publishedSql(outbox, false, byLease))).toMatch(/^SEARCH ackord_outbox USING INTEGER PRIMARY KEY \(rowid=\?\)$/)
    expect(plan(deletePublishedSql(outbox))).toMatch(/USING COVERING INDEX ackord_outbox_published \(published_at<\?\)/)
    expect(plan(listSql(outbox, { state: 'parked' }, true, { after: '0', limit: 1, payloads: true }).sql)).toMatch(
      /^SEARCH ackord_outbox USING INDEX ackord_outbox_parked/,
    )
    expect(plan(cleanInboxSql('"ackord_inbox"'))).toMatch(/USING COVERING INDEX ackord_inbox_received \(received_at<\?\)/)
  })

  it('find new records behind ten thousand that are leased, parked or published', async () => {
    await using world = await nodeKind.open()
    const outbox = sqlOutbox(world.database, { retain: true, ...quiet })
    await append(world, ...Array.from({ length: 300 }, (_, index) => recordOf(`e${index}`, `d${index % 100}`)))
    const claimed = await outbox.claim({ limit: 200, lease: 60_000 })
    await outbox.settle(
      claimed.map(({ id, token }, index) => ({
        id,
        token,
        ...(index % 2 === 0 ? { result: 'published' } : { result: 'parked', error: 'x' }),
      })),
    )
    const rest = await outbox.claim({ limit: 1000, lease: 60_000 })
    expect(rest).toHaveLength(100)
    expect(await outbox.claim({ limit: 1000, lease: 60_000 })).toEqual([])
    expect(await outbox.renew(rest, 60_000)).toEqual(rest.map(() => true))
    await outbox.release(rest)
    expect(await outbox.claim({ limit: 1000, lease: 60_000 })).toHaveLength(100)
  })

  it('reject names that SQLite reserves', async () => {
    await using world = await nodeKind.open()
    expect(() => sqlOutbox(world.database, { names: { outbox: 'sqlite_outbox' } })).toThrow(/sqlite_/)
    expect(await failureOf(cleanInbox(world.database, { schema: 'temp' }))).toMatchObject({
      code: 'ACKORD_INVALID_OPTION',
      message: expect.stringMatching(/'main'/),
    })
  })
})

import { jsonMarshaler, marshal, silentLogger } from '@ackord/core'
import type { ClaimedRecord, OutboxFilter } from '@ackord/outbox'
import { expect, it } from 'vitest'
import type { AdminStatements } from '../../src/contract/store-dialect.ts'
import { sqlOutbox } from '../../src/index.ts'
import { portOf } from '../../src/transaction/database.ts'
import type { DatabasePort } from '../../src/transaction/open-transaction.ts'
import { type ClientWorld, onEachClient } from '../support/client-worlds.ts'
import { event } from '../support/world.ts'

const hour = 3_600_000

/** 60 records of three destinations, of which every tenth has the type `rare`. They are in all states, and half of the sequence numbers are missing. */
async function fill<Handle>(world: ClientWorld<Handle>): Promise<void> {
  const outbox = sqlOutbox(world.database, { retain: true, logger: silentLogger })
  const records = Array.from({ length: 120 }, (_, index) => ({
    destination: `d${index % 3}`,
    message: marshal(event(`e${index}`, index % 20 === 0 ? { type: 'rare' } : {}), jsonMarshaler),
  }))
  for (let start = 0; start < records.length; start += 40)
    await world.database.write((transaction) => outbox.append(transaction, records.slice(start, start + 40)))
  const { records: stored } = await outbox.list({}, { limit: 1000 })
  await outbox.park(
    stored.filter((_, index) => index % 2 === 1).map(({ id }) => id),
    'not needed',
  )
  await outbox.discard({ filter: { error: 'not needed' } }, 'a gap')
  const claimed = await outbox.claim({ limit: 50, lease: hour })
  const end = async (from: number, ending: (record: ClaimedRecord) => Parameters<typeof outbox.settle>[0][number]) =>
    await outbox.settle(claimed.slice(from, from + 10).map(ending))
  await end(0, ({ id, token }) => ({ id, token, result: 'published' }))
  await end(10, ({ id, token }) => ({ id, token, result: 'parked', error: 'refused', cause: 'refused' }))
  await end(20, ({ id, token }) => ({ id, token, result: 'failed', error: 'timeout', cause: 'timeout', retryAfter: hour }))
}

const filters: readonly OutboxFilter[] = [
  { type: 'rare' },
  { type: 'none' },
  { state: 'leased' },
  { state: 'ready' },
  { state: 'waiting', cause: 'timeout' },
  { state: 'parked', error: 'REFUSED' },
  { state: 'published', type: 'rare' },
  { destination: 'd1', maxAge: hour },
  { destination: 'd2', state: 'leased' },
  { destination: 'none', type: 'rare' },
  { destination: 'd1' },
  { destination: 'd1', state: 'published' },
]

const unlimited = { payloads: false, maxRead: 1_000_000, indexed: false }

function statementsOf<Handle>({ database }: ClientWorld<Handle>): AdminStatements {
  const port = portOf(database)
  const driver = port.driver as DatabasePort<unknown>['driver']
  const { outbox: table } = port.tables({})
  return port.dialect.store.administration({ driver, table, retain: true, keepsFailures: async () => true })
}

function testShortPages<Handle>(name: string, open: () => Promise<ClientWorld<Handle>>): void {
  it(`a search that may read few rows at a time finds the same rows in the same order, on ${name}`, async () => {
    await using world = await open()
    await fill(world)
    const statements = statementsOf(world)
    const { rows: all } = await statements.list({}, { ...unlimited, after: '0', limit: 1000 })
    expect(all).toHaveLength(60)
    for (const filter of filters) {
      const whole = await statements.list(filter, { ...unlimited, after: '0', limit: 1000 })
      const expected = whole.rows.map(({ seq }) => seq)
      expect(whole.searched).toBeUndefined()
      for (const [maxRead, limit] of [
        [1, 3],
        [7, 3],
        [13, 1000],
        [1000, 1000],
      ] as const) {
        const found: unknown[] = []
        let after: string | undefined = '0'
        let pages = 0
        while (after !== undefined) {
          const { rows, searched } = await statements.list(filter, { ...unlimited, after, limit, maxRead })
          found.push(...rows.map(({ seq }) => seq))
          pages += 1
          const next = rows.length === limit ? String(rows.at(-1)?.['seq']) : searched?.seq
          if (next !== undefined) expect(Number(next)).toBeGreaterThan(Number(after))
          if (rows.length < limit && searched !== undefined) {
            const read = all.filter(({ seq }) => Number(seq) <= Number(searched.seq))
            expect(read.map((row) => Number(row['created_at']))).toContain(searched.at)
          }
          after = next
        }
        expect([filter, maxRead, found]).toEqual([filter, maxRead, expected])
        if (maxRead === 1000) expect(pages).toBe(1)
        if (maxRead === 7 && filter.type === 'none') expect(pages).toBeGreaterThanOrEqual(8)
      }
    }
  })
}

onEachClient(testShortPages)

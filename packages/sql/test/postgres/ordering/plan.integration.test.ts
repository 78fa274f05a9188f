import { describe, expect, it } from 'vitest'
import { openPg } from '../../support/world.ts'
import { lease, ordered, published } from '../support/ordered-store.ts'

type PgWorld = Awaited<ReturnType<typeof openPg>>

/** SQL that inserts `count` rows with these keys directly into the table. */
function fill(
  count: number,
  options: { readonly state?: string; readonly key?: string; readonly destination?: string; readonly available?: string } = {},
): string {
  const { state = 'ready', key = 'NULL', destination = 'events', available = '0' } = options
  return `INSERT INTO ackord_outbox (state, destination, id, type, ordering_key, partition, data, attributes, available_at, parked_at, published_at)
    SELECT '${state}', '${destination}', 'e' || n, 't', ${key}, coalesce(hashtext(${key}), n) & 255, '\\x00', '{"id":"e","type":"t","source":"/s"}',
      clock_timestamp() + interval '${available}', ${state === 'parked' ? 'now()' : 'NULL'}, ${state === 'published' ? 'now()' : 'NULL'}
    FROM generate_series(1, ${count}) AS n`
}

interface Node {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
}

/** Collects how the statements of `work` scan the outbox, and how many rows they examine. */
async function watch(
  world: PgWorld,
  work: () => Promise<unknown>,
): Promise<{ readonly scans: ReadonlySet<string>; readonly rows: number }> {
  const query = world.pool.query.bind(world.pool)
  const scans = new Set<string>()
  let rows = 0
  const explain = async (text: string, values: unknown[]) => {
    const client = await world.client()
    try {
      // Explains the statement in the state in which it will run, and rolls back.
      await client.query('BEGIN')
      const { rows: plans } = await client.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${text}`, values)
      // The server JIT-compiles plans that it estimates to be expensive, and the compilation itself is expensive.
      expect(JSON.stringify(plans)).not.toContain('JIT')
      JSON.stringify(plans, (_, value: Node | null) => {
        if (typeof value === 'object' && value?.['Relation Name'] === 'ackord_outbox' && value['Node Type'] !== 'ModifyTable') {
          scans.add(value['Node Type'])
          rows += ((value['Actual Rows'] ?? 0) + (value['Rows Removed by Filter'] ?? 0)) * value['Actual Loops']
        }
        return value
      })
    } finally {
      await client.query('ROLLBACK')
      client.release()
    }
  }
  Object.assign(world.pool, {
    async query(text: unknown, values: unknown[] = []) {
      if (typeof text === 'string' && text.startsWith('WITH')) await explain(text, values)
      return await query(text as string, values)
    },
  })
  try {
    await work()
  } finally {
    Object.assign(world.pool, { query })
  }
  return { scans, rows }
}

async function claimed(world: PgWorld, limit: number) {
  const store = ordered(world.database)
  // The first claim acquires partitions and discovers the records.
  await store.release(await store.claim({ limit: 1, lease }))
  let found = 0
  const seen = await watch(world, async () => {
    const records = await store.claim({ limit, lease })
    found = records.length
    await store.settle(records.map(published))
  })
  return { store, found, ...seen }
}

describe('a claim in order', () => {
  it('reads no more of a key with 200,000 records than it returns, and finds the others beside it', { timeout: 60_000 }, async () => {
    await using world = await openPg({ max: 3, fresh: true })
    await world.query(fill(200_000, { key: `'hot'` }))
    await world.query(fill(400, { key: `'k' || n % 100` }))
    await world.query('ANALYZE ackord_outbox')
    const { found, scans, rows } = await claimed(world, 500)
    expect(found).toBe(500)
    expect([...scans]).not.toContain('Seq Scan')
    expect(rows).toBeLessThan(6000)
    expect(await world.query(`SELECT count(*)::int AS n FROM ackord_outbox WHERE ordering_key <> 'hot'`)).toEqual([{ n: 0 }])
  })

  it('is not slowed down by 10,000 keys whose heads wait, nor by parked and published records', { timeout: 60_000 }, async () => {
    await using world = await openPg({ max: 3, fresh: true })
    await world.query(fill(10_000, { state: 'waiting', key: `'w' || n`, available: '1 hour' }))
    await world.query(fill(10_000, { key: `'w' || n` }))
    await world.query(fill(50_000, { state: 'parked', key: `'p' || n % 10` }))
    await world.query(fill(50_000, { state: 'published', key: `'k' || n % 10` }))
    await world.query(fill(10, { key: `'k' || n` }))
    await world.query('ANALYZE ackord_outbox')
    const { found, scans, rows } = await claimed(world, 500)
    expect(found).toBe(10)
    expect([...scans]).not.toContain('Seq Scan')
    // Each key's first record is read at most twice: when it is checked, and as the target of a seek.
    expect(rows).toBeLessThan(60_000)
  })

  it('uses the index also without statistics, and skips an excluded destination', {
    timeout: 60_000,
  }, async () => {
    await using world = await openPg({ max: 3, fresh: true })
    await world.query(fill(20_000, { destination: 'down', key: `'k' || n % 500` }))
    await world.query(fill(20_000, { destination: 'down' }))
    await world.query(fill(1000, { key: `'k' || n % 500` }))
    await world.query(fill(1000))
    const store = ordered(world.database)
    await store.release(await store.claim({ limit: 1, lease }))
    const { scans, rows } = await watch(world, async () => {
      expect(await store.claim({ limit: 500, lease, except: ['down'] })).toHaveLength(500)
    })
    expect([...scans]).not.toContain('Seq Scan')
    expect(rows).toBeLessThan(6000)
  })
})

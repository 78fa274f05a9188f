import { expect, it } from 'vitest'
import { findInboxSql } from '../../src/sqlite/inbox.ts'
import { nodeKind } from './support/sqlite-world.ts'

const index = 'INDEX sqlite_autoindex_ackord_inbox_1'

it('a message is found by its id alone with the primary key, one step per consumer and source', async () => {
  await using world = await nodeKind.open()
  const planOf = (query: { readonly consumer?: string; readonly source?: string }) =>
    world
      .query(`EXPLAIN QUERY PLAN ${findInboxSql('"ackord_inbox"', query)}`, ...['m1', ...Object.values(query)])
      .map(({ detail }) => String(detail))
  const found = `SEARCH i USING ${index} (consumer=? AND source=? AND id=?)`
  expect(planOf({ consumer: 'orders', source: '/shop' })).toEqual([found])
  for (const query of [{}, { consumer: 'orders' }]) {
    const plan = planOf(query)
    expect(plan).toEqual(expect.arrayContaining([found, `SEARCH i USING COVERING ${index} (consumer=? AND source>?)`]))
    // Only the first entry is read without a condition, in the order of the index.
    const scans = plan.filter((line) => /^SCAN i\b/.test(line))
    expect(scans).toEqual('consumer' in query ? [] : [`SCAN i USING COVERING ${index}`])
  }
})

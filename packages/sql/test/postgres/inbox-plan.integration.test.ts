import { silentLogger } from '@ackord/core'
import { expect, it } from 'vitest'
import { createSchema, sqlInbox } from '../../src/index.ts'
import { findInboxSql } from '../../src/postgres/inbox.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { openPg } from '../support/world.ts'

it.each([
  ['', false],
  [', in partitions', true],
])('a message is found by its id alone without reading the inbox, one step per consumer and source%s', async (_title, isPartitioned) => {
  await using world = await openPg({ max: 1, fresh: true })
  await world.query(
    `INSERT INTO ackord_inbox (consumer, source, id) SELECT 'consumer ' || n % 5, '/source/' || n % 4, 'm' || n FROM generate_series(1, 100000) AS n`,
  )
  await createSchema(world.database, { inbox: { partitions: isPartitioned } })
  await world.query('ANALYZE ackord_inbox')
  const entries = await sqlInbox(fromPg(world.pool), { logger: silentLogger }).find('m77')
  expect(entries.map(({ consumer, source, id }) => [consumer, source, id])).toEqual([['consumer 2', '/source/1', 'm77']])
  for (const query of [{}, { consumer: 'consumer 2' }, { source: '/source/1' }, { consumer: 'consumer 2', source: '/source/1' }]) {
    const { sql, parameters } = findInboxSql('ackord_inbox', 'm77', query, { isPartitioned })
    const { rows } = await world.pool.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${sql}`, [...parameters])
    const [{ Plan: plan }] = rows[0]['QUERY PLAN']
    // An empty partition has no pages to read.
    if (!isPartitioned) expect(JSON.stringify(plan)).not.toContain('Seq Scan')
    // The table and its index have more than a thousand pages.
    expect(plan['Shared Hit Blocks'] + plan['Shared Read Blocks']).toBeLessThan(300)
  }
})

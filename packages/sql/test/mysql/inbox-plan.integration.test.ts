import { silentLogger } from '@ackord/core'
import { expect, it } from 'vitest'
import { sqlInbox } from '../../src/index.ts'
import { numbersTo } from './support/flavour.ts'
import { openMysql2 } from './support/mysql-world.ts'

it('a message is found by its id alone without reading the inbox, one step per consumer and source', async () => {
  await using world = await openMysql2({ max: 1, fresh: true })
  await world.query(
    `INSERT INTO ackord_inbox (consumer, source, id, received_at)
SELECT CONCAT('consumer ', seq MOD 5), CONCAT('/source/', seq MOD 4), CONCAT('m', seq), UTC_TIMESTAMP(6) FROM ${numbersTo(100_000)}`,
  )
  await world.query('ANALYZE TABLE ackord_inbox')
  const inbox = sqlInbox(world.database, { logger: silentLogger })
  const reads = async () => {
    const rows = await world.run("SHOW SESSION STATUS LIKE 'Handler_read%'")
    return rows.reduce((sum, row) => sum + Number(row['Value']), 0)
  }
  for (const query of [{}, { consumer: 'consumer 2' }, { source: '/source/1' }, { consumer: 'consumer 2', source: '/source/1' }]) {
    const before = await reads()
    const entries = await inbox.find('m77', query)
    expect(entries.map(({ consumer, source, id }) => [consumer, source, id])).toEqual([['consumer 2', '/source/1', 'm77']])
    expect((await reads()) - before).toBeLessThan(500)
  }
})

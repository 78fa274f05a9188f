import { silentLogger } from '@ackord/core'
import { fromPg } from '../../../src/postgres/index.ts'
import { pg } from '../../support/pg.ts'
import { postgresUrl } from '../../support/postgres-url.ts'
import { ordered } from './ordered-store.ts'

/** Claims records, reports their ids, and waits to be killed. */
const database = fromPg(new pg.Pool({ connectionString: postgresUrl, max: 2 }), {
  schema: process.env['CLAIM_SCHEMA'],
  logger: silentLogger,
})
const claimed = await ordered(database).claim({ limit: 100, lease: Number(process.env['CLAIM_LEASE']) })
process.send?.(claimed.map(({ message }) => message.id))
setInterval(() => {}, 60_000)

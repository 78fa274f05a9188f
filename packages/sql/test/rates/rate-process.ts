import { silentLogger } from '@ackord/core'
import { runRateProcess } from '../../../testkit/test/support/rate-process.ts'
import { sqlRateLimiter } from '../../src/index.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { pg } from '../support/pg.ts'
import { postgresUrl } from '../support/postgres-url.ts'

const pool = new pg.Pool({ connectionString: postgresUrl, max: 2 })
await runRateProcess(sqlRateLimiter(fromPg(pool, { schema: process.env['RATE_SCHEMA'], logger: silentLogger })))
await pool.end()
process.disconnect?.()

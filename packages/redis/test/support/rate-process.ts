import { silentLogger } from '@ackord/core'
import { Redis as Client } from 'ioredis'
import { runRateProcess } from '../../../testkit/test/support/rate-process.ts'
import { fromIoredis, redisRateLimiter } from '../../src/index.ts'
import { redisUrl } from './redis-clients.ts'

const client = new Client(redisUrl)
await runRateProcess(redisRateLimiter(fromIoredis(client, { logger: silentLogger }), { tag: process.env['RATE_TAG'] }))
client.disconnect()
process.disconnect?.()

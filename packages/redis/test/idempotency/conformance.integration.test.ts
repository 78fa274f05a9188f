import { ResultTable, testIdempotencyStore } from '@ackord/testkit/suites'
import { afterAll, describe, it } from 'vitest'
import { isProof } from '../../../../scripts/test-depth.mjs'
import { redisKinds } from '../support/redis-clients.ts'
import { openIdempotencyWorld } from './idempotency-world.ts'

const results = new ResultTable()

afterAll(() => console.log(results.format()))

// Answers are bytes, which each client passes on in its own way.
const kinds = isProof ? redisKinds : redisKinds.filter(({ name }) => !name.startsWith('ioredis 5'))

for (const kind of kinds) {
  testIdempotencyStore(
    { describe, it },
    { name: kind.name, open: () => openIdempotencyWorld(kind), features: { concurrentWrites: true }, results },
  )
}

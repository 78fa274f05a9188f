import { ResultTable, testProcessStore } from '@ackord/testkit/suites'
import { afterAll, describe, it } from 'vitest'
import { isProof } from '../../../../scripts/test-depth.mjs'
import { redisKinds } from '../support/redis-clients.ts'
import { openProcessWorld } from './process-world.ts'

const results = new ResultTable()

afterAll(() => console.log(results.format()))

// The commands are the same on every client; their replies are not.
const kinds = isProof ? redisKinds : redisKinds.filter(({ name }) => !name.startsWith('ioredis 5'))

for (const kind of kinds) {
  testProcessStore(
    { describe, it },
    { name: kind.name, open: () => openProcessWorld(kind), results, depth: kind === kinds[0] || isProof ? 'whole' : 'basic' },
  )
}

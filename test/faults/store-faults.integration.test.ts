import { ResultTable } from '@ackord/testkit/suites'
import { afterAll } from 'vitest'
import { isProof } from '../../scripts/test-depth.mjs'
import { registerFaults } from './register.ts'
import { mariadbStore } from './stores/mariadb-store.ts'
import { postgresLogStore, postgresStore } from './stores/postgres-store.ts'
import { redisStores } from './stores/redis-store.ts'
import { sqliteScenarios } from './stores/sqlite-scenarios.ts'
import { openSqliteStore } from './stores/sqlite-store.ts'
import type { ServerStoreKind } from './stores/store.ts'
import { isRepetition, needsPool, storeScenarios } from './stores/store-scenarios.ts'

const results = new ResultTable()
const suite = 'faults of a store'

// Without ACKORD_PROOF each kind of fault runs once on PostgreSQL and on Redis.
const kinds: readonly ServerStoreKind[] = isProof
  ? [postgresStore, postgresLogStore, mariadbStore, ...redisStores]
  : [postgresStore, ...redisStores.slice(0, 1)]

for (const kind of kinds) {
  const without = [...(isProof ? [] : [isRepetition]), ...(redisStores.includes(kind) ? [needsPool] : [])]
  const scenarios = storeScenarios(kind).filter(({ name }) => !without.includes(name))
  registerFaults({ suite, name: kind.name, scenarios, open: kind.open, results })
}
if (isProof) registerFaults({ suite, name: 'SQLite', scenarios: sqliteScenarios, open: openSqliteStore, results })

afterAll(() => {
  console.log(`${results.format()}
A dash: not in this run, or it does not apply. A client of Redis has one connection for all handlers, hence no pool. SQLite is a file:
no connection can be cut and no server restarted; it is the lock that a stranger takes, and the processes that are killed (faults of workers).
`)
})

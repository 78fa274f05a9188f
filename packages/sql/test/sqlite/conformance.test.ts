import { depthOfFirstClient, depthOfOtherClients } from '../../../../scripts/test-depth.mjs'
import { testSqlConformance, testSqlOrder } from '../support/sql-conformance.ts'
import { sqliteSqlWorld } from './support/sqlite-conformance.ts'
import { sqliteKinds } from './support/sqlite-world.ts'

// The complete suites run on the first client by default; on the others they run only in `make proof`.

for (const [index, { name, open }] of sqliteKinds.entries()) {
  const own = index === 0 ? 'whole' : depthOfOtherClients
  testSqlConformance(name, sqliteSqlWorld(open), { depth: own })
  testSqlOrder(name, sqliteSqlWorld(open), index === 0 ? depthOfFirstClient : depthOfOtherClients)
}

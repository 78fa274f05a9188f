import { depthOfOtherClients } from '../../../../scripts/test-depth.mjs'
import { testMysqlConformance } from './support/mysql-conformance.ts'
import { type MysqlHandle, mysqlKinds } from './support/mysql-world.ts'

// The complete suites run on the first client by default; on the other they run only in `make proof`.

for (const [index, { name, open }] of mysqlKinds.entries()) {
  const send = (_: unknown, handle: MysqlHandle, sql: string, values: unknown[]) => {
    // Covers both ways of sending statements.
    const call = values.includes(null) ? 'execute' : 'query'
    return handle[call](sql, values)
  }
  testMysqlConformance(name, open, send, index === 0 ? 'whole' : depthOfOtherClients)
}

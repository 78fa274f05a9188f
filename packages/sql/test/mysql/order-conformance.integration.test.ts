import { depthOfFirstClient, depthOfOtherClients } from '../../../../scripts/test-depth.mjs'
import { testMysqlOrder } from './support/mysql-conformance.ts'
import { type MysqlHandle, mysqlKinds } from './support/mysql-world.ts'

// The complete suites run on the first client by default; on the other they run only in `make proof`.

for (const [index, { name, open }] of mysqlKinds.entries()) {
  testMysqlOrder(
    name,
    open,
    (_, handle: MysqlHandle, sql, values) => handle.query(sql, values),
    index === 0 ? depthOfFirstClient : depthOfOtherClients,
  )
}

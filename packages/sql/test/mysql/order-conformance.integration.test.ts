import { testMysqlOrder } from './support/mysql-conformance.ts'
import { type MysqlHandle, mysqlKinds } from './support/mysql-world.ts'

for (const { name, open } of mysqlKinds) {
  testMysqlOrder(name, open, (_, handle: MysqlHandle, sql, values) => handle.query(sql, values))
}

import { testMysqlConformance } from './support/mysql-conformance.ts'
import { type MysqlHandle, mysqlKinds } from './support/mysql-world.ts'

for (const { name, open } of mysqlKinds) {
  testMysqlConformance(name, open, (_, handle: MysqlHandle, sql, values) => {
    // Both ways in which statements are sent.
    const call = values.includes(null) ? 'execute' : 'query'
    return handle[call](sql, values)
  })
}

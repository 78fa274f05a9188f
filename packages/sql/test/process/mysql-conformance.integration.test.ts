import { testMysqlProcesses } from '../mysql/support/mysql-conformance.ts'
import { type MysqlHandle, openMysql2 } from '../mysql/support/mysql-world.ts'

testMysqlProcesses('mysql2', openMysql2, (_, handle: MysqlHandle, sql, values) => handle.query(sql, values))

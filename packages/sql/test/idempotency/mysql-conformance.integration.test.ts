import { testMysqlIdempotency } from '../mysql/support/mysql-conformance.ts'
import { type MysqlHandle, openMysql2 } from '../mysql/support/mysql-world.ts'

// On other clients the basic scenarios run with the conformance suites.
testMysqlIdempotency('mysql2', openMysql2, (_, handle: MysqlHandle, sql, values) => handle.query(sql, values))

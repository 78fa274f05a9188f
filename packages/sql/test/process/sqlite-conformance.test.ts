import { sqliteSqlWorld } from '../sqlite/support/sqlite-conformance.ts'
import { sqliteKinds } from '../sqlite/support/sqlite-world.ts'
import { testSqlProcesses } from '../support/sql-conformance.ts'

for (const { name, open } of sqliteKinds) testSqlProcesses(name, sqliteSqlWorld(open))

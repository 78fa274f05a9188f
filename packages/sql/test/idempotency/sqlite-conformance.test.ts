import { sqliteSqlWorld } from '../sqlite/support/sqlite-conformance.ts'
import { sqliteKinds } from '../sqlite/support/sqlite-world.ts'
import { testSqlIdempotency } from '../support/sql-conformance.ts'

// Without a reader, the claims of a process wait for its open transaction.
for (const { name, open } of sqliteKinds) testSqlIdempotency(name, sqliteSqlWorld(open, { withReader: true }), { concurrentWrites: false })

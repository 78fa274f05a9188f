import { vi } from 'vitest'
import { isProof } from '../../scripts/test-depth.mjs'
import { testInjection } from './injection-suite.ts'
import { openMariadb, openPostgres, openSqlite } from './sql-stores.ts'

const [count, messages] = isProof ? [10_000, 1000] : [2000, 200]

// The suites process thousands of texts one by one, which is slow on a busy machine.
vi.setConfig({ testTimeout: 300_000 })

testInjection({ name: 'PostgreSQL', open: openPostgres, count, messages })
testInjection({ name: 'MariaDB', open: () => openMariadb(), count, messages })
// In this mode a backslash is an ordinary character, and a driver that escapes quotes with it would allow injection.
testInjection({
  name: 'MariaDB, without backslash escapes',
  open: () => openMariadb('ANSI,NO_BACKSLASH_ESCAPES'),
  count: 1000,
  messages: 100,
})
testInjection({ name: 'SQLite', open: openSqlite, count, messages })

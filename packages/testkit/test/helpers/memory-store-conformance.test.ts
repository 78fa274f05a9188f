import { describe, it } from 'vitest'
import { testInbox, testTransaction } from '../../src/suites/transaction/test-transaction.ts'
import { openMemoryStoreWorld as open } from '../support/memory-store-world.ts'

testTransaction({ describe, it }, { name: 'MemoryStore', open, features: { savepoints: true, failCommit: true } })
testInbox({ describe, it }, { name: 'MemoryStore', open, duplicates: 'handled' })

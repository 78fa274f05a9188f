import { describe, it } from 'vitest'
import { testInbox, testInboxAdmin, testTransaction } from '../../src/suites/transaction/test-transaction.ts'
import { memoryStoreFeatures as features, openMemoryStoreWorld as open } from '../support/memory-store-world.ts'

testTransaction({ describe, it }, { name: 'MemoryStore', open, features })
testInbox({ describe, it }, { name: 'MemoryStore', open, duplicates: 'handled' })
testInboxAdmin({ describe, it }, { name: 'MemoryStore', open, searches: true })

import { describe, expect, it } from 'vitest'
import { inboxScenarios } from '../src/transaction/inbox-scenarios.ts'
import { memoryTransactionFeatures, memoryTransactionWorld } from '../src/transaction/memory-transaction-world.ts'
import { testInbox, testTransaction, transactionScenarios } from '../src/transaction/test-transaction.ts'
import { inboxMutants, transactionMutants } from '../src/transaction/transaction-mutants.ts'
import { checkMutants } from './support/check-mutants.ts'

const open = memoryTransactionWorld()

testTransaction({ describe, it }, { name: 'memory', open, features: memoryTransactionFeatures })
checkMutants(transactionScenarios(memoryTransactionFeatures), transactionMutants, open, { describe, expect, it })

testInbox({ describe, it }, { name: 'memory', open })
checkMutants(inboxScenarios, inboxMutants, open, { describe, expect, it })

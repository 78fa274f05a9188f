import { describe, expect, it } from 'vitest'
import { memoryTransactionFeatures, memoryTransactionWorld } from '../../src/mutants/memory-transaction-world.ts'
import { inboxMutants, transactionMutants } from '../../src/mutants/transaction-mutants.ts'
import { inboxScenarios } from '../../src/suites/transaction/inbox-scenarios.ts'
import { testInbox, testTransaction, transactionScenarios } from '../../src/suites/transaction/test-transaction.ts'
import { checkMutants } from '../support/check-mutants.ts'

const open = memoryTransactionWorld()

testTransaction({ describe, it }, { name: 'memory', open, features: memoryTransactionFeatures })
checkMutants(transactionScenarios(memoryTransactionFeatures), transactionMutants, open, { describe, expect, it })

testInbox({ describe, it }, { name: 'memory', open })
checkMutants(inboxScenarios, inboxMutants, open, { describe, expect, it })

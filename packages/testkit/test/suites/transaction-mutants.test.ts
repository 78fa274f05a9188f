import { describe, expect, it } from 'vitest'
import { inboxScenariosFor } from '../../src/suites/transaction/inbox-scenarios.ts'
import { transactionScenarios } from '../../src/suites/transaction/test-transaction.ts'
import { inboxMutants, transactionMutants } from '../mutants/transaction/transaction-mutants.ts'
import { checkMutants } from '../support/check-mutants.ts'
import { memoryStoreFeatures, openMemoryStoreWorld } from '../support/memory-store-world.ts'

checkMutants(transactionScenarios(memoryStoreFeatures), transactionMutants, openMemoryStoreWorld, { describe, expect, it })
checkMutants(inboxScenariosFor('handled'), inboxMutants, openMemoryStoreWorld, { describe, expect, it })

import { describe, expect, it } from 'vitest'
import { inboxAdminScenarios } from '../../src/suites/transaction/inbox-admin-scenarios.ts'
import { inboxScenariosFor } from '../../src/suites/transaction/inbox-scenarios.ts'
import { transactionScenarios } from '../../src/suites/transaction/test-transaction.ts'
import { inboxAdminMutants } from '../mutants/transaction/inbox-admin-mutants.ts'
import { inboxMutants, transactionMutants } from '../mutants/transaction/transaction-mutants.ts'
import { checkMutants } from '../support/check-mutants.ts'
import { memoryStoreFeatures, openMemoryStoreWorld } from '../support/memory-store-world.ts'

checkMutants(transactionScenarios(memoryStoreFeatures), transactionMutants, openMemoryStoreWorld, { describe, expect, it })
checkMutants(inboxScenariosFor('handled'), inboxMutants, openMemoryStoreWorld, { describe, expect, it })
checkMutants(inboxAdminScenarios({ searches: true }), inboxAdminMutants, openMemoryStoreWorld, { describe, expect, it })

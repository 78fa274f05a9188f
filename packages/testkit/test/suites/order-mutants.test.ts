import { describe, expect, it } from 'vitest'
import { orderMutants } from '../../src/mutants/order-mutants.ts'
import { ruledOrderPorts } from '../../src/mutants/ruled-ordered-world.ts'
import { orderScenarios, testOrderedOutbox } from '../../src/suites/ordering/test-ordered-outbox.ts'
import { checkMutants } from '../support/check-mutants.ts'

testOrderedOutbox({ describe, it }, { name: 'RuledOrderedStore', open: ruledOrderPorts().openStore })
checkMutants(orderScenarios, orderMutants, ruledOrderPorts(), { describe, expect, it })

import { describe, expect, it } from 'vitest'
import { relayMutants, ruledRelayPorts } from '../../src/mutants/relay-mutants.ts'
import { relayScenarios, testRelay } from '../../src/suites/relay/test-relay.ts'
import { checkMutants } from '../support/check-mutants.ts'

testRelay({ describe, it }, { name: 'RuledRelay', ...ruledRelayPorts() })
checkMutants(relayScenarios, relayMutants, ruledRelayPorts(), { describe, expect, it })

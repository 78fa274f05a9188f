import { Relay } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { orderScenarios } from '../../src/suites/ordering/test-ordered-outbox.ts'
import { openOrderedMemoryOutboxWorld } from '../../src/suites/outbox/outbox-world.ts'
import type { RelayPorts } from '../../src/suites/relay/relay-world.ts'
import { orderingMutants } from '../mutants/ordering/ordering-mutants.ts'
import { checkMutants } from '../support/check-mutants.ts'

const ports: RelayPorts = { openStore: openOrderedMemoryOutboxWorld, createRelay: (store, setup) => new Relay(store, setup) }
checkMutants(orderScenarios, orderingMutants, ports, { describe, expect, it })

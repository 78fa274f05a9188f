import { Relay } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { openMemoryOutboxWorld } from '../../src/suites/outbox/outbox-world.ts'
import { operatorScenarios } from '../../src/suites/relay/operator-scenarios.ts'
import type { RelayPorts } from '../../src/suites/relay/relay-world.ts'
import { relayScenarios } from '../../src/suites/relay/test-relay.ts'
import { relayMutants } from '../mutants/relay/relay-mutants.ts'
import { checkMutants } from '../support/check-mutants.ts'

const ports: RelayPorts = { openStore: openMemoryOutboxWorld, createRelay: (store, setup) => new Relay(store, setup) }
checkMutants([...relayScenarios, ...operatorScenarios], relayMutants, ports, { describe, expect, it })

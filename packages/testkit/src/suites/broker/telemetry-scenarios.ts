import assert from 'node:assert/strict'
import type { Attributes, BrokerAddress } from '@ackord/core'
import { BrokerSession, event } from './broker-session.ts'
import type { BrokerScenario } from './broker-world.ts'

export const sourceTelemetryScenarios: readonly BrokerScenario[] = [
  {
    name: 'a source names its system, and its server by a valid host and port if at all',
    async run(open) {
      await using session = await BrokerSession.open(open)
      const reader = session.read()
      // Before it has connected, too.
      checkAddress(reader.source)
      await session.send(event('e1'))
      await reader.ack(1)
      return checkAddress(reader.source)
    },
  },
  {
    name: 'carries traceparent and tracestate unchanged',
    async run(open) {
      await using session = await BrokerSession.open(open)
      const traces: Readonly<Record<string, Attributes>> = {
        whole: {
          traceparent: traceparentOf('a'),
          tracestate: 'vendor=00f067aa0ba902b7,other@tenant=t61rcWkgMzE',
          baggage: 'user=alice,tier=gold;ttl=5',
        },
        parent: { traceparent: traceparentOf('b') },
        unsampled: { traceparent: traceparentOf('c', '00'), tracestate: 'vendor=1' },
        none: {},
      }
      // One call: a trace must not reach the other messages of the call.
      await session.send(...Object.entries(traces).map(([id, trace]) => event(id, trace)))
      for (const message of await session.read().ack(4)) {
        assert.deepEqual(traceOf(message.attributes), traces[String(message.id)], `the trace of the message '${message.id}'`)
      }
    },
  },
]

export const publisherTelemetryScenarios: readonly BrokerScenario[] = [
  {
    name: 'a publisher names its system, and its server by a valid host and port if at all',
    async run(open) {
      await using session = await BrokerSession.open(open)
      checkAddress(session.publisher)
      await session.send(event('e1'))
      return checkAddress(session.publisher)
    },
  },
]

/** Returns the address, for the table of results. */
function checkAddress({ system, serverAddress, serverPort }: BrokerAddress): string {
  assert.ok(typeof system === 'string' && system !== '', 'system must be a non-empty string')
  // Neither a URL nor a user name or password, which must not reach telemetry.
  const isHost = typeof serverAddress === 'string' && /^[^\s@/?#[\]]+$/.test(serverAddress)
  assert.ok(serverAddress === undefined || isHost, 'serverAddress must be undefined, or a host name or address')
  const isPort = Number.isInteger(serverPort) && Number(serverPort) >= 1 && Number(serverPort) <= 65_535
  assert.ok(serverPort === undefined || isPort, 'serverPort must be undefined, or a number from 1 to 65,535')
  return [system, serverAddress, serverPort].filter((part) => part !== undefined).join(' ')
}

function traceparentOf(digit: string, flags = '01'): string {
  return `00-${digit.repeat(32)}-${digit.repeat(16)}-${flags}`
}

function traceOf(attributes: Attributes): Attributes {
  const names = ['traceparent', 'tracestate', 'baggage']
  return Object.fromEntries(names.flatMap((name) => (attributes[name] === undefined ? [] : [[name, attributes[name]]])))
}

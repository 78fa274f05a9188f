import type { RawMessage } from '@ackord/core'
import {
  type BrokerClaims,
  type BrokerSourceOptions,
  type BrokerTopic,
  type BrokerWorld,
  ResultTable,
  testPublisher,
  testSource,
} from '@ackord/testkit/suites'
import type { MqttClient } from 'mqtt'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { startMosquitto } from '../../../scripts/servers/index.mjs'
import type { MqttPublisherOptions } from '../src/index.ts'
import { openWorld, type World } from './support/world.ts'

const results = new ResultTable()

// With a limit for the size of messages, and restarted by a scenario.
let server: Awaited<ReturnType<typeof startMosquitto>>

beforeAll(async () => {
  server = await startMosquitto({ settings: ['max_packet_size 2000000', 'max_queued_messages 10000'] })
})

afterAll(async () => {
  await server.stop()
  console.log(results.format())
})

interface BrokerOptions extends MqttPublisherOptions {
  /**
   * Whether each source has a client of its own, with a client id that the next source uses again once its iteration has ended: as an instance of a service does that is restarted. Otherwise
   * all sources share one client, as those of one process may.
   */
  readonly instances?: boolean
}

const defaultGroup = 'default'
/** A message to a topic without subscription is lost, so the groups exist before anything is published. */
const groups = [defaultGroup, 'billing', 'shipping']

async function openBroker({ instances = true, ...publishing }: BrokerOptions): Promise<BrokerWorld> {
  const world = await openWorld({ server: server.url })
  return {
    largest: publishing.mode === 'structured' ? 1_000_000 : 1_500_000,
    tooLarge: 2_000_001,
    async topic() {
      const topic = world.name()
      for (const group of groups) await world.declare(memberOf(topic, group, 0), topic, group)
      return instances ? instanceTopic(world, topic) : sharedTopic(world, topic)
    },
    publisher: () => world.publisher(publishing),
    restart: () => server.restart(),
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  }
}

function memberOf(topic: string, group: string, index: number): string {
  return `${topic}-${group}-${index}`
}

/** One client per group, for all sources. */
function sharedTopic(world: World, topic: string): BrokerTopic {
  const clients = new Map<string, MqttClient>()
  return {
    destination: topic,
    source({ group = defaultGroup, deadLetter, prefetch } = {}) {
      const client = clients.get(group) ?? world.client({ clientId: memberOf(topic, group, 0) })
      clients.set(group, client)
      return world.source(topic, { group, deadLetter, prefetch }, client)
    },
  }
}

interface Instance {
  client: MqttClient | undefined
  isReading: boolean
}

/** A source connects at its first `next()`, with the first client id of its group that no other iteration uses. */
function instanceTopic(world: World, topic: string): BrokerTopic {
  const groupsOfInstances = new Map<string, Instance[]>()

  async function start(group: string, { deadLetter, prefetch: receiveMaximum = 100 }: BrokerSourceOptions) {
    const instances = groupsOfInstances.get(group) ?? []
    groupsOfInstances.set(group, instances)
    const free = instances.findIndex(({ isReading }) => !isReading)
    const index = free < 0 ? instances.length : free
    const instance = instances[index] ?? { client: undefined, isReading: false }
    instances[index] = instance
    instance.isReading = true
    await instance.client?.endAsync()
    instance.client = world.client({ clientId: memberOf(topic, group, index), properties: { receiveMaximum } })
    return { instance, source: world.source(topic, { group, deadLetter }, instance.client) }
  }

  return {
    destination: topic,
    source({ group = defaultGroup, ...options } = {}) {
      let isClosed = false
      let starting: ReturnType<typeof start> | undefined
      const finished = async () => {
        const started = await starting
        if (started !== undefined) started.instance.isReading = false
      }
      return {
        system: 'mqtt',
        messages({ signal }) {
          let inner: AsyncIterator<RawMessage> | undefined
          const iterator: AsyncIterableIterator<RawMessage> = {
            async next() {
              if (inner === undefined && (isClosed || signal.aborted)) return { done: true, value: undefined }
              starting ??= start(group, options)
              const { source } = await starting
              inner ??= source.messages({ signal })[Symbol.asyncIterator]()
              const result = await inner.next()
              if (result.done === true) await finished()
              return result
            },
            async return() {
              await inner?.return?.()
              await finished()
              return { done: true, value: undefined }
            },
            [Symbol.asyncIterator]: () => iterator,
          }
          return iterator
        },
        async [Symbol.asyncDispose]() {
          isClosed = true
          await (await starting)?.source.close()
          await finished()
        },
      }
    },
  }
}

const claims: BrokerClaims = {
  delay: true,
  deliveryCount: true,
  groups: true,
  names: true,
  origin: true,
  sizeLimit: true,
  restart: true,
}
const binary = { name: 'MQTT', open: () => openBroker({}), claims, results }
const structured = { name: 'MQTT, structured', open: () => openBroker({ mode: 'structured' }), claims, results }
const twice = { name: 'MQTT, QoS 2', open: () => openBroker({ qos: 2 }), claims, results }
// Sources of one client share its messages one by one; those of two clients do not: the broker has assigned each message to a client by then.
const oneClient = {
  name: 'MQTT, one client',
  open: () => openBroker({ instances: false }),
  claims: { ...claims, competing: true },
  results,
}
for (const subject of [binary, oneClient, structured]) testSource({ describe, it }, subject)
for (const subject of [binary, twice, structured]) testPublisher({ describe, it }, subject)

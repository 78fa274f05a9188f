import { Message, publishAll, silentLogger } from '@ackord/core'
import { mqttPublisher, mqttSource } from '@ackord/mqtt'
import { startFaultProxy } from '@ackord/testkit'
import mqtt, { type IClientOptions } from 'mqtt'
import { packetsIn, packetTypes } from '../../../packages/mqtt/test/support/packets.ts'
import { ownName } from '../../../scripts/test-run.mjs'
import { eventsName } from '../names.ts'
import type { FaultBrokerKind } from './broker.ts'

const url = process.env['MQTT_URL'] ?? 'mqtt://127.0.0.1:1883'

export const mqttBroker: FaultBrokerKind = {
  name: 'MQTT',
  async open() {
    const name = `faults-${ownName()}`
    const [input, output] = [`${name}-commands`, `${name}-events`]
    const settled = new SettledCommands()
    const counting = await startFaultProxy(url, (bytes) => settled.see(bytes))
    const proxy = await startFaultProxy(counting.url)
    // Pings detect a half-open connection; one second is the shortest interval.
    const common: IClientOptions = { protocolVersion: 5, reconnectPeriod: 20, keepalive: 1 }
    const session = { clean: false, clientId: name, properties: { sessionExpiryInterval: 600, receiveMaximum: 16 } }
    const declaring = await mqtt.connectAsync(url, { ...common, ...session })
    await declaring.subscribeAsync(`$share/orders/${input}`, { qos: 1, rh: 2 })
    await declaring.endAsync()

    const consuming = mqtt.connect(proxy.url, { ...common, ...session })
    consuming.on('message', (_topic, _payload, packet) => settled.arrived(packet.messageId, packet.properties?.userProperties?.['number']))
    const source = mqttSource(consuming, { topic: input, group: 'orders', logger: silentLogger, backoff: () => 20 })
    const publishing = mqtt.connect(proxy.url, common)
    const publisher = mqttPublisher(publishing, { topic: (to) => (to === eventsName ? output : to), logger: silentLogger })
    const direct = await mqtt.connectAsync(url, { protocolVersion: 5, clientId: `${name}-direct` })
    const sender = mqttPublisher(direct)
    const published: string[] = []
    direct.on('message', (_topic, _payload, { properties }) => void published.push(String(properties?.userProperties?.['id'])))
    await direct.subscribeAsync(output, { qos: 1 })
    let sent = 0

    return {
      source,
      publisher,
      proxy: () => proxy,
      recognise: (moment) => (bytes) => packetsIn(bytes).some(({ type }) => type === packetTypes[moment === 'ack' ? 'puback' : 'publish']),
      async send(commands) {
        const numbered = commands.map(({ data, attributes }) => new Message(data, { ...attributes, number: String(sent++) }))
        await publishAll(sender, input, numbered)
      },
      published: () => [...published],
      waiting: () => sent - settled.count,
      async [Symbol.asyncDispose]() {
        proxy.judge()
        await source[Symbol.asyncDispose]()
        await publisher[Symbol.asyncDispose]()
        await sender[Symbol.asyncDispose]()
        await Promise.all([consuming, publishing, direct].map((client) => client.endAsync()))
        const last = await mqtt.connectAsync(url, { protocolVersion: 5, clean: true, clientId: name })
        await last.endAsync()
        for (const each of [proxy, counting]) await each[Symbol.asyncDispose]()
      },
    }
  },
}

/** The commands whose acknowledgement has reached the broker: it does not say how many messages wait in a session. */
class SettledCommands {
  readonly #byPacketId = new Map<number, unknown>()
  readonly #settled = new Set<unknown>()

  get count(): number {
    return this.#settled.size
  }

  /** `number` is unique for each message that was sent. */
  arrived(packetId: number | undefined, number: unknown): void {
    if (packetId !== undefined) this.#byPacketId.set(packetId, number)
  }

  see(bytes: Buffer): 'pass' {
    for (const { type, body } of packetsIn(bytes)) {
      const number = type === packetTypes.puback ? this.#byPacketId.get(body.readUInt16BE()) : undefined
      if (number !== undefined) this.#settled.add(number)
    }
    return 'pass'
  }
}

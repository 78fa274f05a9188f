import { silentLogger } from '@ackord/core'
import { mqttPublisher, mqttSource } from '@ackord/mqtt'
import mqtt, { type IClientOptions } from 'mqtt'
import { startMosquitto } from '../../scripts/servers/index.mjs'
import type { CarrierKind } from './carrier.ts'

/** Mosquitto writes sessions to its disk when it ends: a killed one would lose the messages that it has confirmed since. */
export const mqttCarrier: CarrierKind = {
  name: 'MQTT',
  fault: 'is restarted',
  async open(destination) {
    const server = await startMosquitto()
    const common: IClientOptions = { protocolVersion: 5, reconnectPeriod: 50, reconnectOnConnackError: true }
    const session = { clean: false, clientId: destination, properties: { sessionExpiryInterval: 3600, receiveMaximum: 50 } }
    // Messages without a subscription are lost, so the session exists before the first one.
    const first = await mqtt.connectAsync(server.url, { ...common, ...session })
    await first.subscribeAsync(`$share/billing/${destination}`, { qos: 1, rh: 2 })
    await first.endAsync()

    const consuming = mqtt.connect(server.url, { ...common, ...session })
    const source = mqttSource(consuming, { topic: destination, group: 'billing', logger: silentLogger, backoff: () => 50 })
    const publishing = mqtt.connect(server.url, common)
    const publisher = mqttPublisher(publishing, { logger: silentLogger })
    return {
      publisher,
      source,
      crash: () => server.restart(),
      async [Symbol.asyncDispose]() {
        await source[Symbol.asyncDispose]()
        await publisher[Symbol.asyncDispose]()
        await Promise.all([consuming.endAsync(), publishing.endAsync()])
        await server.stop()
      },
    }
  },
}

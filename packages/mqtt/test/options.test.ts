import { Message } from '@ackord/core'
import mqtt from 'mqtt'
import { describe, expect, it } from 'vitest'
import {
  type MqttClient,
  type MqttClientOptions,
  type MqttPublisherOptions,
  type MqttSourceOptions,
  mqttPublisher,
  mqttSource,
} from '../src/index.ts'
import { never, persistent } from './support/world.ts'

/** A client that does not connect. */
function idle(options: object = persistent('options')): MqttClient {
  return mqtt.connect('mqtt://127.0.0.1:1', { manualConnect: true, ...options })
}

const refusal = (text: string) => expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(text) })

it.each([
  ['topic', { topic: '' }],
  ['topic', { topic: 'a/#/b' }],
  ['topic', { topic: 'a/b+' }],
  ['topic', { topic: '$share/g/a' }],
  ['topic', { topic: 'a\0' }],
  ['topic', { topic: 'a\ud800' }],
  ['group', { group: '' }],
  ['group', { group: 'a/b' }],
  ['group', { group: 'a+' }],
  ['prefetch', { prefetch: 0 }],
  ['attributes', { attributes: 'id' }],
  ['maxDelay', { maxDelay: -1 }],
  ['backoff', { backoff: 100 }],
  ['deadLetter', { deadLetter: 'dead' }],
  ['logger', { logger: {} }],
  ['prefech', { prefech: 1 }],
])('a source refuses a wrong %s: %o', (name, wrong) => {
  const options = { topic: 'orders/#', group: 'billing', ...wrong } as MqttSourceOptions

  expect(() => mqttSource(idle(), options)).toThrow(refusal(name))
})

it.each([
  ['topic', { topic: 'orders' }],
  ['qos', { qos: 0 }],
  ['mandatory', { mandatory: 'no' }],
  ['unroutable', { unroutable: 'message' }],
  ['mode', { mode: 'batch' }],
  ['connectTimeout', { connectTimeout: 0 }],
  ['timeout', { timeout: 5 }],
])('a publisher refuses a wrong %s: %o', (name, wrong) => {
  expect(() => mqttPublisher(idle(), wrong as unknown as MqttPublisherOptions)).toThrow(refusal(name))
})

it.each([
  ['a clean session', { clean: true }],
  ['a session that ends with the connection', { properties: {} }],
])('a publisher with QoS 2 refuses a client with %s', (_title, options) => {
  const client = idle({ ...persistent('options'), ...options })

  expect(() => mqttPublisher(client, { qos: 2 })).toThrow(refusal('must keep its session'))
})

it.each([undefined, null, {}, { options: {}, publish() {} }])('rejects a value that is not a client: %o', (wrong) => {
  expect(() => mqttPublisher(wrong as unknown as MqttClient)).toThrow(refusal('client'))
})

it.each([3, 4])('rejects a client that speaks version %i of the protocol', (protocolVersion) => {
  expect(() => mqttPublisher(idle({ protocolVersion }))).toThrow(refusal('must speak MQTT 5'))
})

describe('a source rejects a client', () => {
  it.each<[string, MqttClientOptions, string]>([
    ['with a clean session', { clean: true }, 'clean: false'],
    ['whose session ends with its connection', { properties: { receiveMaximum: 10 } }, 'sessionExpiryInterval'],
    ['without a client id of its own', { clientId: 'mqttjs_1a2b3c4d' }, 'clientId'],
    ['with topic aliases', { properties: { sessionExpiryInterval: 60, topicAliasMaximum: 10 } }, 'topicAliasMaximum'],
  ])('%s', (_title, wrong, text) => {
    const client = idle({ ...persistent('options'), ...wrong })

    expect(() => mqttSource(client, { topic: 'orders', group: 'billing' })).toThrow(refusal(text))
  })

  it('with a source of an overlapping topic, and shares a subscription between sources of the same one', () => {
    const client = idle()
    mqttSource(client, { topic: 'orders/+/placed', group: 'billing' })
    mqttSource(client, { topic: 'orders/+/placed', group: 'billing' })
    mqttSource(client, { topic: 'invoices', group: 'billing' })

    for (const [topic, group] of [
      ['orders/#', 'billing'],
      ['orders/eu/+', 'billing'],
      ['orders/+/placed', 'shipping'],
    ] as const) {
      expect(() => mqttSource(client, { topic, group })).toThrow(refusal('overlaps'))
    }
  })
})

it.each([
  ['an empty one', ''],
  ['with a wildcard for many levels', 'orders/#'],
  ['with a wildcard for one level', 'orders/+'],
  ['with NUL', 'a\0b'],
  ['with a line break', 'line\nbreak'],
  ['too long', 'x'.repeat(65_536)],
])('a topic that MQTT does not allow fails one message, before anything is sent: %s', async (_title, topic) => {
  const publisher = mqttPublisher(idle(), { topic: () => topic })
  const [result] = await publisher.publish('orders', [new Message(new Uint8Array(), { id: 'a' })], { signal: never })

  expect(result).toMatchObject({ ok: false, error: { cause: { code: 'ACKORD_INVALID_OPTION' } } })
})

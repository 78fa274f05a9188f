import { describe, expect, it } from 'vitest'
import { parseAddress } from '../../src/broker/broker-address.ts'
import { createPublisher } from '../../src/broker/create-publisher.ts'
import { createSource } from '../../src/broker/create-source.ts'
import { createPolledSource } from '../../src/broker/polled-source.ts'
import { createReceiver } from '../../src/broker/receiver.ts'
import { type BrokerAddress, exponentialBackoff, MemoryBroker, silentLogger, systemRuntime } from '../../src/index.ts'

const { signal } = new AbortController()

function addressOf({ system, serverAddress, serverPort }: BrokerAddress) {
  return [system, serverAddress, serverPort]
}

describe('parseAddress()', () => {
  it.each([
    ['localhost:4222', 'localhost', 4222],
    ['rabbit-0.rabbit.default.svc:5672', 'rabbit-0.rabbit.default.svc', 5672],
    ['10.0.0.1:65535', '10.0.0.1', 65_535],
    ['[::1]:4222', '::1', 4222],
    ['fe80::1%eth0:9092', 'fe80::1%eth0', 9092],
  ])('parses %s', (text, serverAddress, serverPort) => {
    expect(parseAddress(text)).toEqual({ serverAddress, serverPort })
  })

  it.each([
    undefined,
    '',
    'localhost',
    ':4222',
    'localhost:0',
    'localhost:65536',
    'localhost:nats',
    'guest:secret@localhost:5672',
    'amqp://localhost:5672',
  ])('finds no address in %o', (text) => {
    expect(parseAddress(text)).toEqual({})
  })
})

/** A driver of any kind, which is connected to a server of this list. */
class Driver implements BrokerAddress {
  readonly system = 'test'
  readonly serverPort: number
  readonly #servers: readonly string[]

  constructor(servers: readonly string[], serverPort = 1) {
    this.#servers = servers
    this.serverPort = serverPort
  }

  get serverAddress(): string | undefined {
    return this.#servers.at(-1)
  }

  // What publishers, sources and polled sources need beside the address. Nothing is sent or received here.
  readonly broker = 'Test'
  readonly route = (destination: string) => destination
  readonly write = () => ({})
  readonly send = () => {}
  readonly backoff = exponentialBackoff()
  readonly runtime = systemRuntime
  readonly logger = silentLogger
  readonly fields = {}
  readonly lost = 'lost'
  readonly restored = 'restored'
  readonly open = () => Promise.reject(new Error('unreachable'))
  readonly messageOf = () => undefined
  readonly prefetch = 1
  readonly pollInterval = 1000
  readonly leaseTime = 1000
  readonly claim = async () => []
  readonly renew = async () => {}
  readonly release = async () => {}
  readonly ack = async () => true
  readonly nack = async () => true
  readonly read = () => ({ data: new Uint8Array(), attributes: {} })
}

describe('the address of a source or publisher', () => {
  it.each([
    ['createPublisher()', (servers: string[]) => createPublisher(new Driver(servers))],
    ['createSource()', (servers: string[]) => createSource(() => new Driver(servers), createReceiver())],
    ['createPolledSource()', (servers: string[]) => createPolledSource<object>(() => new Driver(servers), createReceiver())],
  ])('is that of the driver at the time, for %s', (_name, create) => {
    const servers: string[] = []
    const part = create(servers)
    expect(addressOf(part)).toEqual(['test', undefined, 1])
    servers.push('one')
    expect(addressOf(part)).toEqual(['test', 'one', 1])
    servers.push('two')
    expect(addressOf(part)).toEqual(['test', 'two', 1])
  })

  it('is that of the latest driver, and no driver is created only for it', () => {
    let created = 0
    const source = createSource(() => {
      created += 1
      return new Driver([], created)
    }, createReceiver())
    expect(created).toBe(0)
    expect([source.serverPort, source.system, created]).toEqual([1, 'test', 1])

    source.messages({ signal })
    expect([source.serverPort, created]).toEqual([1, 1])
    source.messages({ signal })
    expect([source.serverPort, created]).toEqual([2, 2])
  })

  it('has a system and no server for the in-memory broker', async () => {
    await using broker = new MemoryBroker()
    expect(addressOf(broker)).toEqual(['memory', undefined, undefined])
    expect(addressOf(broker.source('orders'))).toEqual(['memory', undefined, undefined])
  })
})

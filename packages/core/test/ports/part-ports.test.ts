import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createPublisher } from '../../src/broker/create-publisher.ts'
import { MemoryBroker } from '../../src/broker/memory/memory-broker.ts'
import { createReceiver } from '../../src/broker/receiver.ts'
import type { Source } from '../../src/broker/source.ts'
import { Message } from '../../src/message/message.ts'
import { deadLetterMiddleware } from '../../src/middleware/dead-letter.ts'
import { middleware } from '../../src/middleware/middleware.ts'
import { retryMiddleware } from '../../src/middleware/retry.ts'
import type { Metrics } from '../../src/ports/metrics.ts'
import type { Logger } from '../../src/ports/observability.ts'
import { PartPorts, type SharedPorts } from '../../src/ports/part-ports.ts'
import { Engine } from '../../src/router/engine.ts'
import { Router } from '../../src/router/router.ts'
import { recordingLogger } from '../support/recording-logger.ts'

const levels = ['debug', 'info', 'warn', 'error'] as const
let written: unknown[][] = []

beforeEach(() => {
  written = []
  for (const level of levels) vi.spyOn(console, level).mockImplementation((...args: unknown[]) => void written.push(args))
})
afterEach(() => {
  vi.restoreAllMocks()
})

const textsOf = (logger: ReturnType<typeof recordingLogger>) => logger.lines.map(({ text }) => text)

describe('the ports of a part', () => {
  it('log to the console until the part inherits a logger', () => {
    const logger = recordingLogger()
    const ports = new PartPorts()
    ports.logger.warn({}, 'before')
    ports.inheritPorts({ logger })
    ports.logger.warn({}, 'after')
    expect(written).toEqual([['before']])
    expect(textsOf(logger)).toEqual(['after'])
  })

  it('keep a logger that was given, and otherwise that of the first user', () => {
    const [own, first, second] = [recordingLogger(), recordingLogger(), recordingLogger()]
    const given = new PartPorts({ logger: own })
    const inheriting = new PartPorts()
    for (const logger of [first, second]) {
      given.inheritPorts({ logger })
      inheriting.inheritPorts({ logger })
    }
    given.logger.info({}, 'to its own')
    inheriting.logger.info({}, 'to the first')
    expect([own, first, second].map(textsOf)).toEqual([['to its own'], ['to the first'], []])
  })

  it('have metrics once a user has some, and keep those that were given', () => {
    const counted: string[] = []
    const metricsNamed = (name: string): Metrics => ({ count: () => void counted.push(name), observe() {}, gauge() {} })
    const ports = new PartPorts()
    expect(ports.metrics).toBeUndefined()
    ports.inheritPorts({ logger: recordingLogger() })
    expect(ports.metrics).toBeUndefined()
    ports.inheritPorts({ metrics: metricsNamed('first') })
    ports.inheritPorts({ metrics: metricsNamed('second') })
    ports.metrics?.count('ackord.settled', 1, {})
    const given = new PartPorts({ metrics: metricsNamed('own') })
    given.inheritPorts({ metrics: metricsNamed('other') })
    given.metrics?.count('ackord.settled', 1, {})
    expect(counted).toEqual(['first', 'own'])
  })

  it('pass on what they were given, and what they inherit, to the parts that the part uses', () => {
    const [own, inherited] = [recordingLogger(), recordingLogger()]
    const usedByGiven = new PartPorts()
    const usedByOther = new PartPorts()
    new PartPorts({ logger: own }, [usedByGiven, undefined, {}])
    const other = new PartPorts({}, [usedByOther])
    other.inheritPorts({ logger: inherited })
    usedByGiven.logger.info({}, 'one')
    usedByOther.logger.info({}, 'two')
    expect([textsOf(own), textsOf(inherited)]).toEqual([['one'], ['two']])
  })

  it('treat the logger of another part as a default: two sources of one connection log to their own routers', () => {
    const [first, second] = [recordingLogger(), recordingLogger()]
    const connection = new PartPorts()
    const sources = [new PartPorts({ logger: connection.logger }), new PartPorts({ logger: connection.logger })] as const
    sources[0].logger.warn({}, 'to the console')
    sources[0].inheritPorts({ logger: first })
    sources[1].logger.warn({}, 'through the connection')
    sources[1].inheritPorts({ logger: second })
    for (const [index, { logger }] of [...sources, connection].entries()) logger.warn({}, String(index))
    expect(written).toEqual([['to the console']])
    expect(textsOf(first)).toEqual(['through the connection', '0', '2'])
    expect(textsOf(second)).toEqual(['1'])
  })

  it('end a circle of parts that use each other', () => {
    const logger = recordingLogger()
    const users: PartPorts[] = []
    const one = new PartPorts({}, [{ inheritPorts: (ports) => users[0]?.inheritPorts(ports) }])
    users.push(new PartPorts({}, [one]))
    one.inheritPorts({ logger })
    one.inheritPorts({ logger: one.logger })
    one.logger.info({}, 'one')
    users[0]?.logger.info({}, 'two')
    expect(textsOf(logger)).toEqual(['one', 'two'])
  })

  it('reject a logger that lacks methods when they inherit it', () => {
    expect(() => new PartPorts().inheritPorts({ logger: { info() {} } as unknown as Logger })).toThrow('logger must have the methods')
  })
})

describe('a router with a logger', () => {
  const handler = { type: 'order.place', handle: async () => [] }
  const metrics: Metrics = { count() {}, observe() {}, gauge() {} }

  const emptySource = (inherited: SharedPorts[]): Source => ({
    async *messages() {},
    inheritPorts: (ports) => void inherited.push(ports),
  })

  it('passes it on to its source, its publisher and all middleware, before it reads', async () => {
    const logger = recordingLogger()
    const inherited: SharedPorts[] = []
    const heir = { inheritPorts: (ports: SharedPorts) => void inherited.push(ports) }
    const part = middleware(heir, (next) => next)
    await new Router({ logger, metrics })
      .use(middleware({ parts: [middleware({ parts: [part] }, (next) => next)] }, (next) => next))
      .handle(handler, { use: [part] })
      .run(emptySource(inherited), { publisher: { publish: async () => [], ...heir }, destination: 'events' })
    expect(inherited).toHaveLength(4)
    for (const ports of inherited) {
      ports.logger?.info({}, 'arrived')
      expect(ports.metrics).toBeDefined()
    }
    expect(textsOf(logger)).toHaveLength(4)
  })

  it('has nothing to pass on if it was given none, so that the next user may', async () => {
    const inherited: SharedPorts[] = []
    await new Router().handle(handler).run(emptySource(inherited))
    expect(inherited).toEqual([{ logger: undefined, metrics: undefined }])
  })

  it('works with sources, publishers and middleware that inherit nothing', async () => {
    const run = new Router({ logger: recordingLogger() })
      .use((next) => next)
      .handle(handler)
      .run({ async *messages() {} }, { publisher: { publish: async () => [] }, destination: 'events' })
    await expect(run).resolves.toBeUndefined()
  })

  it('passes it on to the inputs and outputs of an engine', async () => {
    const logger = recordingLogger()
    const inherited: SharedPorts[] = []
    const engine = new Engine(new Router({ logger }).handle(handler))
    engine.addInput(emptySource(inherited), { name: 'in' })
    engine.addOutput(
      { publish: async () => [], inheritPorts: (ports) => void inherited.push(ports) },
      { name: 'out', destination: 'events' },
    )
    expect(inherited).toHaveLength(2)
  })

  it('is where its source, its retries and its dead letters log, and nothing is written to the console', async () => {
    const logger = recordingLogger()
    const broker = new MemoryBroker()
    const letters = createPublisher<string>({
      broker: 'Letters',
      route: (destination) => destination,
      write: () => 'letter',
      send: () => Promise.reject(new Error('The dead letter is down.')),
      inheritPorts: (ports) => ports.logger?.info({}, 'The publisher of the dead letter inherits.'),
    })
    const source = broker.source('orders', { deadLetter: { publisher: letters, destination: 'dead' } })
    await broker.publish('orders', [broken()])
    const router = new Router({ logger, redeliveryDelay: () => 0 })
      .use(deadLetterMiddleware({ publisher: letters, destination: 'dead' }), retryMiddleware({ attempts: 2, backoff: () => 0 }))
      .handle({ type: 'order.place', handle: () => Promise.reject(new Error('broken')) })
    const run = router.run(source)
    await vi.waitFor(() => expect(textsOf(logger)).toContain('An attempt failed and will be repeated.'))
    await vi.waitFor(() => expect(router.health().failed).toBeGreaterThan(0))
    await router.stop()
    await run
    await broker.close()
    expect(textsOf(logger).filter((text) => text === 'The publisher of the dead letter inherits.')).toHaveLength(2)
    expect(written).toEqual([])
  })

  it('is where a source logs that was made by createReceiver()', async () => {
    const logger = recordingLogger()
    const receive = createReceiver()
    const message = receive({ data: new Uint8Array(), attributes: { type: 'order.place', id: '1' }, origin: 'orders', ack() {}, nack() {} })
    receive.inheritPorts({ logger })
    await message.reject(new Error('no'))
    expect(logger.lines).toMatchObject([{ level: 'warn', fields: { type: 'order.place', id: '1', origin: 'orders' } }])
    expect(written).toEqual([])
  })
})

function broken() {
  return new Message(new TextEncoder().encode('{}'), { type: 'order.place', id: '1', source: '/shop', datacontenttype: 'application/json' })
}

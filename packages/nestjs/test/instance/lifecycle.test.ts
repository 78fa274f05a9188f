import { EventEmitter } from 'node:events'
import { defineEvent, jsonMarshaler, MemoryBroker, marshal, type Publisher, publishAll, type Source, silentLogger } from '@ackord/core'
import { createSchema, type Database } from '@ackord/sql'
import { fromPglite } from '@ackord/sql/postgres'
import { deferred, recordingLogger, VirtualRuntime } from '@ackord/testkit'
import { PGlite } from '@electric-sql/pglite'
import { Injectable, Module, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type AckordInstance, AckordModule, getInstanceToken, nestLogger, OnEvent } from '../../src/index.ts'
import { warnWithoutSignals } from '../../src/instance/warn-without-signals.ts'

const orderPlaced = defineEvent<{ orderId: string }>('order.placed')
const orderBilled = defineEvent<{ orderId: string }>('order.billed')
let pglite: PGlite
let database: Database<unknown>

beforeAll(async () => {
  pglite = await PGlite.create()
  database = fromPglite(pglite) as Database<unknown>
  await createSchema(database)
})
afterAll(() => pglite.close())

describe('an application', () => {
  it('starts its consumers last, and closes handlers, relay, publisher and pools in this order, without shutdown hooks', async () => {
    const broker = new MemoryBroker({ logger: silentLogger })
    const steps: string[] = []
    const [started, finish] = [deferred(), deferred()]
    const source = watched(broker.source('orders'), 'source', steps)
    const publisher = watched(broker, 'publisher', steps)

    @Injectable()
    class Handlers {
      @OnEvent(orderPlaced)
      async placed({ orderId }: { orderId: string }) {
        steps.push('handler begins')
        started.resolve()
        await finish.promise
        steps.push('handler ends')
        return [orderBilled({ orderId })]
      }
    }

    @Injectable()
    class Hooks implements OnModuleInit, OnApplicationShutdown {
      onModuleInit() {
        steps.push('init')
      }

      onApplicationShutdown() {
        steps.push('shutdown')
      }
    }

    const options = {
      database,
      consumer: 'lifecycle',
      source,
      publisher,
      destination: 'billed',
      eventSource: '/orders',
      logger: silentLogger,
    }
    @Module({
      imports: [
        AckordModule.forRoot({
          ...options,
          onClose: () => {
            steps.push('pools are closed')
          },
        }),
      ],
      providers: [Handlers, Hooks],
    })
    class AppModule {}

    const app = await NestFactory.createApplicationContext(AppModule, { logger: false })
    const instance = app.get<AckordInstance>(getInstanceToken())
    await publishAll(broker, 'orders', [marshal(orderPlaced({ orderId: 'o-1' }, { id: 'm-1', source: '/shop' }), jsonMarshaler)])
    await started.promise
    const closing = app.close()
    finish.resolve()
    await closing

    expect(steps[0]).toBe('init')
    expect(steps.indexOf('handler ends')).toBeLessThan(steps.indexOf('shutdown'))
    // In which order the modules of an application shut down depends on the version of Nest.
    expect(steps.slice(1).filter((step) => step !== 'shutdown')).toEqual([
      'handler begins',
      'handler ends',
      'source is closed',
      'publisher is closed',
      'pools are closed',
    ])
    expect(instance.health()).toMatchObject({ state: 'closed', healthy: false })
    await app.close()
    expect(steps.filter((step) => step === 'pools are closed')).toHaveLength(1)
  })
})

/** The same part, which records when it is closed. */
function watched<Part extends Source | Publisher>(part: Part, name: string, steps: string[]): Part {
  return new Proxy(part, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property)
      if (property === 'close') {
        return async () => {
          await target.close?.()
          steps.push(`${name} is closed`)
        }
      }
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

describe('the warning about signals', () => {
  it('is logged once, shortly after the start, if nothing listens to them', async () => {
    const runtime = new VirtualRuntime()
    const logger = recordingLogger()
    warnWithoutSignals({ logger, runtime, signals: new EventEmitter() })

    expect(logger.lines).toEqual([])
    await runtime.advance(60_000)
    expect(logger.at('warn').map(({ text }) => text)).toEqual([expect.stringContaining('app.enableShutdownHooks()')])
  })

  it('is not logged if the application listens, or has stopped by then', async () => {
    const runtime = new VirtualRuntime()
    const logger = recordingLogger()
    warnWithoutSignals({ logger, runtime, signals: new EventEmitter().on('SIGTERM', () => {}) })
    warnWithoutSignals({ logger, runtime, signals: new EventEmitter() }).cancel()

    await runtime.advance(60_000)
    expect(logger.lines).toEqual([])
  })
})

describe('nestLogger()', () => {
  it("writes text, fields and errors to Nest's logger", async () => {
    const lines: unknown[] = []
    const record =
      (level: string) =>
      (message: unknown, ...others: unknown[]) =>
        void lines.push([level, others.at(-1), message])
    const { Logger } = await import('@nestjs/common')
    Logger.overrideLogger({ log: record('log'), warn: record('warn'), error: record('error'), debug: record('debug') })
    const logger = nestLogger()

    logger.debug({}, 'Nothing to do.')
    logger.info({ destination: 'orders', count: 2 }, 'Published.')
    logger.warn({ err: new Error('refused\nnext line') }, 'The broker is away.')
    logger.error({}, 'Failed.')
    Logger.overrideLogger(false)

    expect(lines).toEqual([
      ['debug', 'Ackord', 'Nothing to do.'],
      ['log', 'Ackord', "Published. { destination: 'orders', count: 2 }"],
      ['warn', 'Ackord', expect.stringMatching(/^The broker is away\.\nError: refused/)],
      ['error', 'Ackord', 'Failed.'],
    ])
  })
})

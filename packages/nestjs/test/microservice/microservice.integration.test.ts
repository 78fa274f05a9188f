import 'reflect-metadata'
import { currentContext, defineEvent, RejectError } from '@ackord/core'
import type { Database } from '@ackord/sql'
import { deferred } from '@ackord/testkit'
import { BadRequestException, Controller, Inject, Injectable, Scope } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { type ClientProxy, Ctx, EventPattern, MessagePattern, Payload, RpcException } from '@nestjs/microservices'
import { EMPTY, from, lastValueFrom, mergeMap, toArray } from 'rxjs'
import { describe, expect, it } from 'vitest'
import { AckordClient, AckordRpcContext, AckordTransport, HandlerErrorInterceptor } from '../../src/microservice/index.ts'
import { clientToken, databaseToken, type Handle, openWorld } from './microservice-world.ts'

interface Order {
  readonly id: string
}

const orderPlaced = defineEvent<Order>('order.placed')
const placed = (id: string) => orderPlaced({ id }, { id: `m-${id}`, source: '/shop' })

/** What the controllers of these tests inject. */
class Base {
  @Inject(databaseToken)
  readonly database!: Database<Handle>

  @Inject(clientToken)
  readonly client!: ClientProxy

  async insert(id: string): Promise<void> {
    await this.database.executor(undefined, { required: true }).query('INSERT INTO orders (id) VALUES ($1)', [id])
  }
}

describe('AckordTransport', () => {
  it('handles a message once that arrives twice, and publishes the event that its handler emitted', async () => {
    @Controller()
    class Orders extends Base {
      @EventPattern('order.placed')
      async confirm({ id }: Order) {
        await this.insert(id)
        this.client.emit('order.confirmed', { id })
      }
    }
    await using world = await openWorld({ controllers: [Orders] })
    await world.app.listen()
    await world.send(placed('o-1'), placed('o-1'), placed('o-2'))
    expect(await world.receive('events', 2)).toEqual(['o-1', 'o-2'].map((id) => ({ type: 'order.confirmed', data: { id } })))
    expect([await world.orders(), await world.inbox()]).toEqual([2, 2])
    await world.app.close()
    expect(await world.outbox()).toBe(0)
  })

  it('rolls back everything of a handler that fails, and delivers the message again', async () => {
    let deliveries = 0
    @Controller()
    class Orders extends Base {
      @EventPattern('order.placed')
      async confirm({ id }: Order) {
        deliveries += 1
        await this.insert(`${id}-${deliveries}`)
        await lastValueFrom(this.client.emit('order.confirmed', { delivery: deliveries }), { defaultValue: undefined })
        if (deliveries === 1) throw new Error('not yet')
      }
    }
    await using world = await openWorld({ controllers: [Orders] })
    await world.app.listen()
    await world.send(placed('o-1'))
    expect(await world.receive('events', 1)).toEqual([{ type: 'order.confirmed', data: { delivery: 2 } }])
    expect(await world.query('SELECT id FROM orders')).toEqual([{ id: 'o-1-2' }])
  })

  it('runs several handlers of a pattern one after the other, in one transaction', async () => {
    const calls: string[] = []
    let fails = true
    @Controller()
    class Orders extends Base {
      @EventPattern('order.placed')
      async first({ id }: Order) {
        calls.push('first')
        await this.insert(`${id}-first`)
        calls.push('first ends')
        return EMPTY
      }
    }
    @Controller()
    class Mails extends Base {
      @EventPattern('order.placed')
      async second({ id }: Order) {
        calls.push('second')
        if (fails) {
          fails = false
          throw new Error('not yet')
        }
        await this.insert(`${id}-second`)
      }
    }
    await using world = await openWorld({ controllers: [Orders, Mails] })
    await world.app.listen()
    await world.send(placed('o-1'))
    await world.handled(1)
    expect(calls).toEqual(['first', 'first ends', 'second', 'first', 'first ends', 'second'])
    expect(await world.query('SELECT id FROM orders ORDER BY id')).toEqual([{ id: 'o-1-first' }, { id: 'o-1-second' }])
  })

  it('waits for the end of an observable, in the transaction', async () => {
    @Controller()
    class Orders extends Base {
      @EventPattern('order.placed')
      confirm({ id }: Order) {
        return from([1, 2]).pipe(mergeMap((line) => this.insert(`${id}-${line}`)))
      }
    }
    await using world = await openWorld({ controllers: [Orders] })
    await world.app.listen()
    await world.send(placed('o-1'))
    await world.handled(1)
    expect(await world.orders()).toBe(2)
  })

  it('creates a controller that depends on the request for each message', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class Counter {
      count = 0
    }
    @Controller()
    class Orders extends Base {
      @Inject(Counter)
      readonly counter!: Counter

      @EventPattern('order.placed')
      async confirm({ id }: Order) {
        this.counter.count += 1
        await this.insert(`${id}-${this.counter.count}`)
      }
    }
    await using world = await openWorld({ controllers: [Orders], providers: [Counter] })
    await world.app.listen()
    await world.send(placed('o-1'), placed('o-2'))
    await world.handled(2)
    expect(await world.query('SELECT id FROM orders ORDER BY id')).toEqual([{ id: 'o-1-1' }, { id: 'o-2-1' }])
  })

  it('passes the message and its context to @Ctx()', async () => {
    const seen: unknown[] = []
    @Controller()
    class Orders extends Base {
      @EventPattern('order.placed')
      async confirm(_order: Order, context: unknown) {
        if (!(context instanceof AckordRpcContext)) throw new RejectError('It is not the context of this transport.')
        seen.push(context.getMessage().id)
        seen.push(this.database.transaction(context.getContext()) === this.database.transaction(currentContext()))
      }
    }
    decorateParameters(Orders, 'confirm')
    await using world = await openWorld({ controllers: [Orders] })
    await world.app.listen()
    await world.send(placed('o-1'))
    await world.handled(1)
    expect(seen).toEqual(['m-o-1', true])
  })

  it.each([
    ['a RejectError', () => new RejectError('It makes no sense.')],
    ['a BadRequestException', () => new BadRequestException('It makes no sense.')],
  ])('rejects a message for %s, with the interceptor', async (_, createError) => {
    @Controller()
    class Orders extends Base {
      @EventPattern('order.placed')
      async confirm({ id }: Order) {
        await this.insert(id)
        throw createError()
      }
    }
    const configure = (app: { useGlobalInterceptors(interceptor: HandlerErrorInterceptor): unknown }) =>
      void app.useGlobalInterceptors(new HandlerErrorInterceptor())
    await using world = await openWorld({ controllers: [Orders], configure })
    await world.app.listen()
    await world.send(placed('o-1'))
    expect(await world.receive('dead', 1)).toEqual([{ type: 'order.placed', data: { id: 'o-1' } }])
    expect([await world.orders(), await world.inbox()]).toEqual([0, 0])
    expect(world.logged.map(({ text }) => text)).toEqual([expect.stringContaining('It makes no sense.')])
  })

  it('rejects messages in a hybrid application, too', async () => {
    @Controller()
    class Orders extends Base {
      @EventPattern('order.placed')
      async confirm({ id }: Order) {
        await this.insert(id)
        if (id === 'o-1') throw new RejectError('It makes no sense.')
      }
    }
    await using world = await openWorld({ controllers: [Orders] })
    const hybrid = await NestFactory.create(world.module, { logger: false })
    hybrid.useGlobalInterceptors(new HandlerErrorInterceptor())
    hybrid.connectMicroservice({ strategy: world.strategy }, { inheritAppConfig: true })
    await hybrid.startAllMicroservices()
    await world.send(placed('o-1'), placed('o-2'))
    expect(await world.receive('dead', 1)).toEqual([{ type: 'order.placed', data: { id: 'o-1' } }])
    await world.handled(1)
    expect(await world.query('SELECT id FROM orders')).toEqual([{ id: 'o-2' }])
    await hybrid.close()
  })

  it('rejects a message for a RejectError in a RpcException, without the interceptor', async () => {
    @Controller()
    class Orders extends Base {
      @EventPattern('order.placed')
      async confirm(_order: Order) {
        throw new RpcException(new RejectError('It makes no sense.'))
      }
    }
    await using world = await openWorld({ controllers: [Orders] })
    await world.app.listen()
    await world.send(placed('o-1'))
    expect(await world.receive('dead', 1)).toHaveLength(1)
  })

  it('retries a message whose error an exception filter has hidden, and says how to see it', async () => {
    let deliveries = 0
    @Controller()
    class Orders extends Base {
      @EventPattern('order.placed')
      async confirm({ id }: Order) {
        deliveries += 1
        if (deliveries === 1) throw new RejectError('It makes no sense.')
        await this.insert(id)
      }
    }
    await using world = await openWorld({ controllers: [Orders] })
    await world.app.listen()
    await world.send(placed('o-1'))
    await world.handled(1)
    expect(await world.orders()).toBe(1)
    expect(world.logged.map(({ err }) => err?.message)).toEqual([
      'The handler failed: Internal server error. Register HandlerErrorInterceptor to see its error instead of the answer of an exception filter.',
    ])
  })

  it('finishes the message that is being handled before the application is closed', async () => {
    const started = deferred<void>()
    const released = deferred<void>()
    @Controller()
    class Orders extends Base {
      @EventPattern('order.placed')
      async confirm({ id }: Order) {
        started.resolve()
        await released.promise
        await this.insert(id)
      }
    }
    await using world = await openWorld({ controllers: [Orders] })
    await world.app.listen()
    await world.send(placed('o-1'))
    await started.promise
    const closing = world.app.close()
    released.resolve()
    await closing
    expect([await world.orders(), await world.inbox()]).toEqual([1, 1])
  })

  it('refuses handlers that expect an answer', async () => {
    @Controller()
    class Orders extends Base {
      @MessagePattern('order.total')
      total() {
        return 42
      }
    }
    await using world = await openWorld({ controllers: [Orders] })
    await expect(world.app.listen()).rejects.toThrow("@MessagePattern('order.total') expects an answer")
  })

  it('ignores handlers of other transports if it has an id', async () => {
    const [ackord, other] = [Symbol('ackord'), Symbol('other')]
    @Controller()
    class Orders extends Base {
      @MessagePattern('order.total', other)
      total() {
        return 42
      }

      @EventPattern('order.placed', ackord)
      async confirm({ id }: Order) {
        await this.insert(id)
      }
    }
    await using world = await openWorld({ controllers: [Orders], transport: { transportId: ackord } })
    await world.app.listen()
    expect([...world.strategy.getHandlers().keys()]).toEqual(['order.placed'])
    expect(world.strategy.unwrap<{ health(): { state: string } }>().health().state).toBe('running')
    expect(() => world.strategy.on()).toThrow('on() is not supported')
  })

  it.each([
    ['no function', [undefined, {}], 'The first argument of AckordTransport must be a function'],
    ['an unknown option', [() => {}, { queue: 'orders' }], "AckordTransport has no option 'queue'"],
  ])('refuses %s', (_, parameters, text) => {
    expect(() => Reflect.construct(AckordTransport, parameters)).toThrow(text)
  })
})

describe('AckordClient', () => {
  it('stores an event in the transaction that it is called in', async () => {
    await using world = await openWorld({})
    const work = (fails: boolean) =>
      world.database.write(async () => {
        world.client.emit('order.confirmed', { id: 'o-1' })
        if (fails) throw new Error('too late')
      })
    await expect(work(true)).rejects.toThrow('too late')
    expect(await world.outbox()).toBe(0)
    await work(false)
    expect(await world.outbox()).toBe(1)
  })

  it('stores an event in a transaction of its own outside of one', async () => {
    await using world = await openWorld({})
    expect(await lastValueFrom(world.client.emit('order.confirmed', { id: 'o-1' }).pipe(toArray()))).toEqual([])
    expect(await world.query('SELECT type FROM ackord_outbox')).toEqual([{ type: 'order.confirmed' }])
  })

  it('stores a message with its attributes', async () => {
    await using world = await openWorld({})
    const message = orderPlaced({ id: 'o-1' }, { id: 'e-1', partitionkey: 'o-1' })
    await lastValueFrom(world.client.emit('order.placed', message), { defaultValue: undefined })
    expect(await world.query('SELECT id, type, ordering_key FROM ackord_outbox')).toEqual([
      { id: 'e-1', type: 'order.placed', ordering_key: 'o-1' },
    ])
  })

  it('fails the transaction if an event cannot be stored and nothing is subscribed', async () => {
    await using world = await openWorld({})
    const writing = world.database.write(async (transaction) => {
      await transaction.query("INSERT INTO orders (id) VALUES ('o-1')")
      world.client.emit('order.confirmed', { total: 1n })
    })
    await expect(writing).rejects.toMatchObject({ cause: { code: 'ACKORD_MARSHAL_FAILED' } })
    expect(await world.orders()).toBe(0)
  })

  it('reports an event that cannot be stored to the subscriber', async () => {
    await using world = await openWorld({})
    const emitted = lastValueFrom(world.client.emit('order.confirmed', { total: 1n }))
    await expect(emitted).rejects.toMatchObject({ code: 'ACKORD_MARSHAL_FAILED' })
  })

  it('refuses a message of another type, and a missing pattern', async () => {
    await using world = await openWorld({})
    expect(() => world.client.emit('order.paid', placed('o-1'))).toThrow("emit('order.paid') was given")
    expect(() => world.client.emit('', {})).toThrow('The pattern given to emit() is missing')
  })

  it('says that it cannot wait for an answer', async () => {
    await using world = await openWorld({})
    await expect(lastValueFrom(world.client.send('order.total', { id: 'o-1' }))).rejects.toThrow('send() is not supported')
  })

  it.each([
    ['no outbox', { database: { write() {} } }, 'outbox.append must be a function'],
    ['an unknown option', { database: { write() {} }, outbox: { append() {} }, queue: 'orders' }, "AckordClient has no option 'queue'"],
  ])('refuses %s', (_, options, text) => {
    expect(() => Reflect.construct(AckordClient, [options])).toThrow(text)
  })
})

/** `@Payload()` and `@Ctx()`, without the syntax for decorators of parameters. */
function decorateParameters({ prototype }: { readonly prototype: object }, method: string): void {
  Payload()(prototype, method, 0)
  Ctx()(prototype, method, 1)
}

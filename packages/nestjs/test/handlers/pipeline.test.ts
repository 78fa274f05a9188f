import { type Context, defineEvent, isAckordError, type Message, messageKey, RejectError } from '@ackord/core'
import { MemoryStore } from '@ackord/testkit'
import {
  type ArgumentsHost,
  BadRequestException,
  type CanActivate,
  Catch,
  createParamDecorator,
  type ExceptionFilter,
  type ExecutionContext,
  Inject,
  Injectable,
  type NestInterceptor,
  type PipeTransform,
  Scope,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
} from '@nestjs/common'
import { APP_FILTER, APP_GUARD, REQUEST } from '@nestjs/core'
import { Test } from '@nestjs/testing'
import { catchError, map, of } from 'rxjs'
import { describe, expect, it } from 'vitest'
import { InjectDatabase, OnCommand, OnEvent } from '../../src/index.ts'
import { AckordTestingModule, assertNothingPublished, assertPublished, deliver } from '../../src/testing/index.ts'

const placeOrder = defineEvent<{ orderId: string }>('order.place')
const orderPlaced = defineEvent<{ orderId: string }>('order.placed')

/** A compiled module in memory with these providers. */
async function compile(...providers: (new () => object)[]) {
  const store = new MemoryStore()
  const module = await Test.createTestingModule({ imports: [AckordTestingModule.forRoot({ store })], providers }).compile()
  module.useLogger(false)
  return { module, store, [Symbol.asyncDispose]: () => module.close() }
}

function orderIn(store: MemoryStore) {
  return store.executor().get('order')
}

describe('a decorated method', () => {
  it('gets the data and the context, writes in the transaction of the message, and its events are stored in the outbox', async () => {
    const seen: unknown[] = []
    @Injectable()
    class Orders {
      @InjectDatabase() readonly store!: MemoryStore

      @OnCommand(placeOrder)
      async place(order: { orderId: string }, context: Context) {
        seen.push(order, context.get(messageKey)?.id, this.store.transaction() !== undefined)
        this.store.executor().set('order', order.orderId)
        return [orderPlaced(order)]
      }
    }
    await using app = await compile(Orders)

    await deliver(app.module, placeOrder({ orderId: 'o-1' }, { id: 'm-1' }))

    expect(seen).toEqual([{ orderId: 'o-1' }, 'm-1', true])
    expect(orderIn(app.store)).toBe('o-1')
    await assertPublished(app.module, {
      type: 'order.placed',
      data: { orderId: 'o-1' },
      destination: 'events',
      attributes: { source: '/test' },
    })
  })

  it('may have several decorators, and several methods of one class handle several types', async () => {
    const seen: string[] = []
    @Injectable()
    class Orders {
      @OnCommand(placeOrder)
      @OnEvent(orderPlaced)
      both({ orderId }: { orderId: string }) {
        seen.push(`both ${orderId}`)
      }

      @OnEvent<string>('note')
      note(text: string) {
        seen.push(text)
      }
    }
    await using app = await compile(Orders)

    await deliver(app.module, placeOrder({ orderId: '1' }))
    await deliver(app.module, orderPlaced({ orderId: '2' }))
    await deliver(app.module, defineEvent<string>('note')('3'))

    expect(seen).toEqual(['both 1', 'both 2', '3'])
  })

  it('gets instances of a class whose name is the type', async () => {
    class OrderShipped {
      readonly orderId: string = ''
    }
    const seen: unknown[] = []
    @Injectable()
    class Orders {
      @OnEvent(OrderShipped)
      shipped(event: OrderShipped) {
        seen.push(event)
      }
    }
    await using app = await compile(Orders)

    await deliver(app.module, defineEvent('OrderShipped')({ orderId: 'o-1' }))

    expect(seen[0]).toBeInstanceOf(OrderShipped)
    expect(seen[0]).toEqual({ orderId: 'o-1' })
  })
})

describe('around a decorated method', () => {
  it('guards, interceptors and pipes run as around a controller, and parameter decorators work', async () => {
    const seen: unknown[] = []
    @Injectable()
    class Guard implements CanActivate {
      canActivate(context: ExecutionContext) {
        const rpc = context.switchToRpc()
        const message = rpc.getContext<Context>().get(messageKey)
        seen.push(['guard', context.getType(), context.getClass().name, context.getHandler().name, rpc.getData(), message?.type])
        return true
      }
    }
    class Interceptor implements NestInterceptor {
      intercept(_context: ExecutionContext, next: { handle(): ReturnType<NestInterceptor['intercept']> }) {
        seen.push('before')
        return (next.handle() as ReturnType<typeof of>).pipe(map((result) => [...(result as object[]), orderPlaced({ orderId: 'added' })]))
      }
    }
    class Upper implements PipeTransform {
      transform(value: unknown, { type }: { type: string }) {
        seen.push(['pipe', type])
        return type === 'body' ? { orderId: (value as { orderId: string }).orderId.toUpperCase() } : value
      }
    }
    const Id = createParamDecorator((_data, context: ExecutionContext) => context.switchToRpc().getContext<Context>().get(messageKey)?.id)
    @Injectable()
    @UseGuards(Guard)
    class Orders {
      @OnCommand(placeOrder)
      @UseInterceptors(new Interceptor())
      @UsePipes(new Upper())
      place(order: { orderId: string }, _context: Context, id: string) {
        seen.push(['method', order, id])
        return [orderPlaced(order)]
      }
    }
    // As with the syntax: a parameter decorator runs before those of its method.
    class Decorated extends Orders {
      override place(order: { orderId: string }, context: Context, id: string) {
        return super.place(order, context, id)
      }
    }
    Id()(Decorated.prototype, 'place', 2)
    const descriptor = Object.getOwnPropertyDescriptor(Decorated.prototype, 'place') as TypedPropertyDescriptor<Decorated['place']>
    UseInterceptors(new Interceptor())(Decorated.prototype, 'place', descriptor)
    UsePipes(new Upper())(Decorated.prototype, 'place', descriptor)
    OnCommand(placeOrder)(Decorated.prototype, 'place', descriptor)
    await using app = await compile(Decorated)

    await deliver(app.module, placeOrder({ orderId: 'a' }, { id: 'm-1' }))

    expect(seen).toEqual([
      ['guard', 'rpc', 'Decorated', 'place', { orderId: 'a' }, 'order.place'],
      'before',
      ['pipe', 'body'],
      ['pipe', 'query'],
      ['pipe', 'custom'],
      ['method', { orderId: 'A' }, 'm-1'],
    ])
    await assertPublished(app.module, { type: 'order.placed' }, { times: 2 })
  })

  it('a guard or pipe that refuses the message rejects it instead of retrying it', async () => {
    class Closed implements CanActivate {
      canActivate() {
        return false
      }
    }
    class Strict implements PipeTransform {
      transform(): never {
        throw new BadRequestException('The order has no customer.')
      }
    }
    @Injectable()
    class Orders {
      @UseGuards(new Closed())
      @OnCommand(placeOrder)
      place() {}

      @UsePipes(new Strict())
      @OnEvent(orderPlaced)
      placed() {}
    }
    await using app = await compile(Orders)

    await expect(deliver(app.module, placeOrder({ orderId: 'a' }))).rejects.toMatchObject({ code: 'ACKORD_REJECTED', retryable: false })
    await expect(deliver(app.module, orderPlaced({ orderId: 'a' }))).rejects.toMatchObject({
      message: 'The order has no customer.',
      retryable: false,
    })
  })

  it('an interceptor may recover from an error, as a try in the method could', async () => {
    class Recover implements NestInterceptor {
      intercept(_context: ExecutionContext, next: { handle(): ReturnType<NestInterceptor['intercept']> }) {
        return (next.handle() as ReturnType<typeof of>).pipe(catchError(() => of([orderPlaced({ orderId: 'default' })])))
      }
    }
    @Injectable()
    class Orders {
      @UseInterceptors(new Recover())
      @OnCommand(placeOrder)
      place() {
        throw new Error('No stock.')
      }
    }
    await using app = await compile(Orders)

    await deliver(app.module, placeOrder({ orderId: 'a' }))

    await assertPublished(app.module, { data: { orderId: 'default' } })
  })
})

describe('an exception filter', () => {
  class OutOfStock extends Error {}

  function handlersWith(filter: ExceptionFilter) {
    @Injectable()
    class Orders {
      @InjectDatabase() readonly store!: MemoryStore

      @UseFilters(filter)
      @OnCommand(placeOrder)
      async place({ orderId }: { orderId: string }) {
        this.store.executor().set('order', orderId)
        throw new OutOfStock('No stock.')
      }
    }
    return Orders
  }

  it.each([
    ['a value', () => ({ status: 'handled' })],
    ['a promise of nothing', async () => undefined],
    ['an empty array', () => []],
    ['nothing', () => undefined],
  ])('sees the error, and the message still fails when it returns %s', async (_title, answer) => {
    const seen: unknown[] = []
    @Catch(OutOfStock)
    class Filter implements ExceptionFilter {
      catch(error: unknown, host: ArgumentsHost) {
        seen.push(error, host.getType(), host.switchToRpc().getData())
        return answer()
      }
    }
    await using app = await compile(handlersWith(new Filter()))

    await expect(deliver(app.module, placeOrder({ orderId: 'o-1' }))).rejects.toBeInstanceOf(OutOfStock)

    expect(seen).toEqual([expect.any(OutOfStock), 'rpc', { orderId: 'o-1' }])
    expect(orderIn(app.store)).toBeUndefined()
    await assertNothingPublished(app.module)
  })

  it('decides about the message by throwing an error of Ackord', async () => {
    @Catch()
    class Filter implements ExceptionFilter {
      catch(error: Error) {
        throw new RejectError('Never again.', { cause: error })
      }
    }
    await using app = await compile(handlersWith(new Filter()))

    const failure = await deliver(app.module, placeOrder({ orderId: 'o-1' })).catch((error: unknown) => error)

    expect(isAckordError(failure, 'ACKORD_REJECTED')).toBe(true)
  })

  it('that fails itself, for example because it expects HTTP, leaves the error as it was', async () => {
    @Catch()
    class Filter implements ExceptionFilter {
      catch(_error: Error, host: ArgumentsHost) {
        host.switchToHttp().getResponse().status(500)
      }
    }
    await using app = await compile(handlersWith(new Filter()))

    await expect(deliver(app.module, placeOrder({ orderId: 'o-1' }))).rejects.toBeInstanceOf(OutOfStock)
  })

  it('of the whole application sees errors of messages, too', async () => {
    const seen: unknown[] = []
    @Catch()
    class Filter implements ExceptionFilter {
      catch(error: unknown) {
        seen.push(error)
        return null
      }
    }
    @Injectable()
    class Orders {
      @OnCommand(placeOrder)
      place() {
        throw new OutOfStock('No stock.')
      }
    }
    const module = await Test.createTestingModule({
      imports: [AckordTestingModule.forRoot()],
      providers: [Orders, { provide: APP_FILTER, useClass: Filter }],
    }).compile()

    await expect(deliver(module, placeOrder({ orderId: 'o-1' }))).rejects.toBeInstanceOf(OutOfStock)

    expect(seen).toEqual([expect.any(OutOfStock)])
    await module.close()
  })
})

describe('scoped providers', () => {
  it('of a request are created once per message, with the message as their request, and shared within it', async () => {
    let created = 0
    @Injectable({ scope: Scope.REQUEST })
    class Tenant {
      @Inject(REQUEST) readonly message!: Message
      readonly number: number

      constructor() {
        created += 1
        this.number = created
      }
    }
    @Injectable()
    class Repository {
      @Inject(Tenant) readonly tenant!: Tenant
    }
    const seen: unknown[] = []
    @Injectable()
    class TenantGuard implements CanActivate {
      @Inject(Tenant) readonly tenant!: Tenant

      canActivate() {
        seen.push(this.tenant.number)
        return true
      }
    }
    @Injectable()
    class Orders {
      @Inject(Tenant) readonly tenant!: Tenant
      @Inject(Repository) readonly repository!: Repository

      @UseGuards(TenantGuard)
      @OnCommand(placeOrder)
      place() {
        seen.push([this.tenant.number, this.repository.tenant === this.tenant, this.tenant.message.id, this.tenant.message.type])
      }
    }
    await using app = await compile(Tenant, Repository, TenantGuard, Orders)

    await deliver(app.module, placeOrder({ orderId: '1' }, { id: 'm-1' }))
    await deliver(app.module, placeOrder({ orderId: '2' }, { id: 'm-2' }))

    expect(seen).toEqual([1, [1, true, 'm-1', 'order.place'], 2, [2, true, 'm-2', 'order.place']])
    expect(created).toBe(2)
  })

  it('may be transient', async () => {
    const seen: number[] = []
    let created = 0
    @Injectable({ scope: Scope.TRANSIENT })
    class Orders {
      readonly number: number

      constructor() {
        created += 1
        this.number = created
      }

      @OnCommand(placeOrder)
      place() {
        seen.push(this.number)
      }
    }
    await using app = await compile(Orders)

    await deliver(app.module, placeOrder({ orderId: '1' }))
    await deliver(app.module, placeOrder({ orderId: '2' }))

    expect(new Set(seen).size).toBe(2)
    expect(seen.every((number) => typeof number === 'number')).toBe(true)
  })

  it('may be guards of the whole application', async () => {
    const seen: unknown[] = []
    @Injectable({ scope: Scope.REQUEST })
    class TenantGuard implements CanActivate {
      @Inject(REQUEST) readonly message!: Message

      canActivate() {
        seen.push(this.message.id)
        return this.message.id !== 'm-2'
      }
    }
    @Injectable()
    class Orders {
      @OnCommand(placeOrder)
      place({ orderId }: { orderId: string }) {
        seen.push(orderId)
      }
    }
    const module = await Test.createTestingModule({
      imports: [AckordTestingModule.forRoot()],
      providers: [Orders, { provide: APP_GUARD, scope: Scope.REQUEST, useClass: TenantGuard }],
    }).compile()
    module.useLogger(false)

    await deliver(module, placeOrder({ orderId: 'o-1' }, { id: 'm-1' }))
    await expect(deliver(module, placeOrder({ orderId: 'o-2' }, { id: 'm-2' }))).rejects.toMatchObject({ code: 'ACKORD_REJECTED' })

    expect(seen).toEqual(['m-1', 'o-1', 'm-2'])
    await module.close()
  })

  it('keep the method in the transaction of its message', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class Orders {
      @InjectDatabase() readonly store!: MemoryStore

      @OnCommand(placeOrder)
      async place({ orderId }: { orderId: string }) {
        this.store.executor().set('order', orderId)
        throw new Error('No stock.')
      }
    }
    await using app = await compile(Orders)

    await expect(deliver(app.module, placeOrder({ orderId: 'o-1' }))).rejects.toThrow('No stock.')

    expect(orderIn(app.store)).toBeUndefined()
  })
})

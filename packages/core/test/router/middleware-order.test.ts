import { describe, expect, it } from 'vitest'
import { compose, type Middleware, type MiddlewareRole, middleware } from '../../src/middleware/middleware.ts'
import type { AckStrategy } from '../../src/router/ack-strategy.ts'
import { checkMiddlewareOrder } from '../../src/router/middleware-order.ts'
import { FedSource, failureOf, handling, openWorld, sourceOf } from '../support/router-world.ts'

const database = { name: 'database' }
const other = { name: 'other database' }

function part(role: MiddlewareRole, resource?: object): Middleware {
  return middleware({ role, resource }, (next) => next)
}

/** `transaction inbox@other` and so on, outermost first; stores use the same database unless stated otherwise. */
function chain(text: string): Middleware[] {
  return text.split(' ').map((word) => {
    const [role, place] = word.split('@') as [MiddlewareRole, string | undefined]
    const stored = ['transaction', 'inbox', 'leasedInbox', 'outbox'].includes(role)
    return part(role, stored ? (place === 'other' ? other : database) : undefined)
  })
}

function check(text: string, ackStrategy: AckStrategy = 'onSuccess'): void {
  checkMiddlewareOrder(chain(text), 'place-order', ackStrategy)
}

describe('valid orders', () => {
  it.each([
    'transaction inbox outbox',
    'transaction outbox',
    'transaction inbox',
    'transaction',
    'leasedInbox transaction outbox',
    'leasedInbox transaction',
    'leasedInbox',
    'deadLetter retry throttle transaction inbox outbox outputs',
    'deadLetter retry throttle leasedInbox transaction outbox outputs',
    'retry retry transaction inbox outbox',
    'outputs outputs',
    'transaction transaction@other inbox outbox',
    'transaction@other transaction inbox outbox',
    'transaction transaction inbox outbox',
    'leasedInbox@other transaction inbox',
    'enclosingTransaction transaction inbox outbox',
    'deadLetter retry enclosingTransaction transaction inbox outbox',
    'enclosingTransaction',
  ])('%s', (text) => {
    expect(() => check(text)).not.toThrow()
  })

  it('are those of middleware without role, and none at all', () => {
    expect(() => checkMiddlewareOrder([(next) => next], 'h', 'onSuccess')).not.toThrow()
    expect(() => checkMiddlewareOrder([], 'h', 'forward')).not.toThrow()
  })

  it('may use forward with an inbox if there is an outbox', () => {
    expect(() => check('transaction inbox outbox', 'forward')).not.toThrow()
    expect(() => check('leasedInbox transaction outbox', 'forward')).not.toThrow()
    expect(() => check('transaction', 'forward')).not.toThrow()
  })

  it('treat parts of no resource as parts of the same', () => {
    const parts = [part('transaction'), part('inbox'), part('outbox')]
    expect(() => checkMiddlewareOrder(parts, 'h', 'onSuccess')).not.toThrow()
  })
})

describe('invalid orders', () => {
  it.each([
    ['transaction retry', 'retry inside a transaction'],
    ['leasedInbox retry transaction', 'retry inside a transaction, inbox or outbox'],
    ['transaction inbox retry', 'retry inside'],
    ['transaction outbox retry', 'retry inside'],
    ['retry deadLetter', 'deadLetter inside of retry'],
    ['transaction deadLetter', 'deadLetter inside a transaction'],
    ['transaction inbox deadLetter', 'deadLetter inside a transaction or inbox'],
    ['leasedInbox deadLetter', 'deadLetter inside a transaction or inbox'],
    ['transaction throttle', 'throttle inside a transaction'],
    ['inbox', 'inbox without a transaction'],
    ['inbox transaction', 'inbox without a transaction'],
    ['transaction@other inbox', 'inbox without a transaction of the same database'],
    ['transaction inbox inbox', 'two inboxes'],
    ['transaction inbox outbox enclosingTransaction', 'insideTransaction() inside a transaction'],
    ['transaction enclosingTransaction', 'Put insideTransaction() outermost'],
    ['transaction@other enclosingTransaction', 'insideTransaction() inside a transaction'],
    ['leasedInbox enclosingTransaction', 'insideTransaction() inside a transaction, inbox or outbox'],
    ['transaction leasedInbox', 'a leased inbox inside the transaction'],
    ['leasedInbox leasedInbox transaction', 'two inboxes'],
    ['outbox', 'outbox without a transaction'],
    ['outbox transaction', 'outbox without a transaction'],
    ['transaction@other outbox', 'outbox without a transaction of the same database'],
    ['transaction outbox outbox', 'two outboxes'],
    ['transaction transaction@other inbox@other outbox', 'inbox and outbox on different databases'],
    ['leasedInbox@other transaction outbox', 'inbox and outbox on different databases'],
    ['transaction outbox inbox', 'outbox outside of the transaction or inbox'],
    ['transaction outbox transaction', 'outbox outside of the transaction or inbox'],
    ['outputs transaction outbox', 'outside of the outbox'],
    ['transaction outputs outbox', 'outside of the outbox'],
  ])('%s', async (text, problem) => {
    const error = await failureOf(() => check(text), 'ACKORD_MIDDLEWARE_ORDER')
    expect(error.message).toContain(problem)
    expect(error.message).toContain("'place-order'")
    expect(error.message).toContain('transaction > inbox > outbox')
  })

  it.each(['transaction inbox', 'leasedInbox transaction'])('forward with an inbox and no outbox: %s', async (text) => {
    const error = await failureOf(() => check(text, 'forward'), 'ACKORD_MIDDLEWARE_ORDER')
    expect(error.message).toContain("ackStrategy 'forward'")
  })

  it('also inside composed middleware, however deep', async () => {
    const [transaction, retry] = chain('transaction retry') as [Middleware, Middleware]
    await failureOf(() => checkMiddlewareOrder([transaction, compose(compose(retry))], 'h', 'onSuccess'), 'ACKORD_MIDDLEWARE_ORDER')
    await failureOf(() => checkMiddlewareOrder([compose(transaction, compose(retry))], 'h', 'onSuccess'), 'ACKORD_MIDDLEWARE_ORDER')
    expect(() => checkMiddlewareOrder([compose(retry), compose(transaction)], 'h', 'onSuccess')).not.toThrow()
  })

  it('also where a middleware has a role and parts: the parts are inside of it', async () => {
    const [transaction, retry] = chain('transaction retry') as [Middleware, Middleware]
    const both = middleware({ role: 'transaction', resource: database, parts: [retry] }, (next) => next)
    await failureOf(() => checkMiddlewareOrder([both], 'h', 'onSuccess'), 'ACKORD_MIDDLEWARE_ORDER')
    const right = middleware({ role: 'retry', parts: [transaction] }, (next) => next)
    expect(() => checkMiddlewareOrder([right], 'h', 'onSuccess')).not.toThrow()
  })

  it("are detected when the router starts, across its own and the handler's middleware", async () => {
    const { router } = openWorld()
    router.use(part('transaction', database))
    router.handle(handling(() => []))
    router.handle(
      handling(() => [], 'order.cancel'),
      { name: 'cancel', use: [part('retry')] },
    )
    const source = new FedSource()
    const error = await failureOf(router.run(source), 'ACKORD_MIDDLEWARE_ORDER')
    expect(error.message).toContain("'cancel'")
    await failureOf(() => router.pipe(source), 'ACKORD_MIDDLEWARE_ORDER')
    expect(source.pulls).toBe(0)
    expect(router.health().state).toBe('idle')
  })

  it('are detected for the ack strategy of the router', async () => {
    const { router } = openWorld({ ackStrategy: 'forward' })
    router.use(...chain('transaction inbox')).handle(handling(() => []))
    await failureOf(router.run(sourceOf()), 'ACKORD_MIDDLEWARE_ORDER')
    const right = openWorld({ ackStrategy: 'forward' }).router
    right.use(...chain('transaction inbox outbox')).handle(handling(() => []))
    await right.run(sourceOf())
    expect(right.health().state).toBe('idle')
  })
})

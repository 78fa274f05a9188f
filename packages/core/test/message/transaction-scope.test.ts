import { describe, expect, it } from 'vitest'
import { type Context, contextKey, currentContext, enter, rootContext } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { afterCommit, afterRollback, TransactionScope, transactionScopeKey } from '../../src/message/transaction-scope.ts'
import { silentLogger } from '../../src/ports/observability.ts'
import { recordingLogger } from '../support/recording-logger.ts'
import { deferred, failureOf, handling, openWorld, sourceOf, tracked, verdicts } from '../support/router-world.ts'
import { trackedMessage } from '../support/tracked-message.ts'

const failure = new Error('failed')

function fail(): never {
  throw failure
}

function openScope() {
  const logger = recordingLogger()
  const outer = rootContext()
  const scope = new TransactionScope(outer, { logger })
  const context = outer.with(transactionScopeKey, scope)
  return { logger, outer, scope, context }
}

describe('a transaction scope', () => {
  it('holds an ack until the commit', async () => {
    const { scope } = openScope()
    const { message, calls } = trackedMessage('data')
    scope.hold(message)
    expect(await message.ack()).toBe(true)
    expect(calls).toEqual([])
    expect(message.state).toBe('pending')
    await scope.end('committed')
    expect(calls).toEqual([{ verdict: 'ack' }])
    expect((await message.settled).verdict).toBe('acked')
  })

  it.each(['rolledBack', 'unknown'] as const)('drops a held ack when it ends %s: the message can be nacked', async (outcome) => {
    const { scope } = openScope()
    const { message, calls } = trackedMessage('data')
    scope.hold(message)
    await message.ack()
    await scope.end(outcome)
    expect(calls).toEqual([])
    expect(message.state).toBe('pending')
    expect(await message.nack(failure)).toBe(true)
    expect(calls.map(({ verdict }) => verdict)).toEqual(['nack'])
  })

  it.each(['nack', 'reject'] as const)('may only be rolled back after a %s, which is carried out then', async (verdict) => {
    const { scope } = openScope()
    const { message, calls } = trackedMessage('data')
    scope.hold(message)
    expect(scope.rollbackOnly).toBeUndefined()
    expect(await message[verdict](failure)).toBe(true)
    expect(scope.rollbackOnly).toEqual({ error: failure })
    expect(calls).toEqual([])
    await scope.end('rolledBack')
    expect(calls.map((call) => [call.verdict, call.error])).toEqual([[verdict, failure]])
  })

  it('lets the first verdict decide inside of it too', async () => {
    const { scope } = openScope()
    const { message, calls } = trackedMessage('data')
    scope.hold(message)
    expect(await message.ack()).toBe(true)
    expect(await message.nack(failure)).toBe(false)
    expect(await message.ack()).toBe(true)
    expect(scope.rollbackOnly).toBeUndefined()
    await scope.end('committed')
    expect(calls).toEqual([{ verdict: 'ack' }])
  })

  it('keeps the delay of a held nack', async () => {
    const { scope } = openScope()
    const { message, calls } = trackedMessage('data')
    scope.hold(message)
    await message.nack(failure, { retryAfter: 250 })
    await scope.end('rolledBack')
    expect(calls[0]?.options).toEqual({ retryAfter: 250 })
  })

  it('holds copies and forks with their message, and several messages at once', async () => {
    const { scope } = openScope()
    const first = trackedMessage('first')
    const second = trackedMessage('second')
    scope.hold(first.message)
    scope.hold(first.message.copy('copy'))
    scope.hold(second.message)
    const forks = first.message.fork(2)
    await Promise.all(forks.map((fork) => fork.ack()))
    await second.message.copy('other').ack()
    expect([...first.calls, ...second.calls]).toEqual([])
    await scope.end('committed')
    expect([first.calls, second.calls]).toEqual([[{ verdict: 'ack' }], [{ verdict: 'ack' }]])
  })

  it('runs afterCommit callbacks in order, before the ack, outside of the transaction', async () => {
    const { scope, context, outer } = openScope()
    const { message, calls } = trackedMessage('data')
    scope.hold(message)
    const events: string[] = []
    const contexts: (Context | undefined)[] = []
    await enter(context, async () => {
      afterCommit(context, async (given) => {
        await Promise.resolve()
        contexts.push(given, currentContext())
        events.push(`first, ${calls.length} acked`)
      })
      afterCommit(context, () => void events.push('second'))
      afterRollback(context, () => void events.push('rolled back'))
      await message.ack()
      await scope.end('committed')
    })
    expect(events).toEqual(['first, 0 acked', 'second'])
    expect(contexts[0]).toBe(outer)
    expect(contexts[1]).toBe(outer)
    expect(contexts[0]?.get(transactionScopeKey)).toBeUndefined()
    expect(calls).toHaveLength(1)
  })

  it('runs afterRollback callbacks when it was rolled back, and none at all when the outcome is unknown', async () => {
    for (const [outcome, expected] of [
      ['rolledBack', ['rolled back']],
      ['unknown', []],
    ] as const) {
      const { scope, context } = openScope()
      const events: string[] = []
      afterCommit(context, () => void events.push('committed'))
      afterRollback(context, () => void events.push('rolled back'))
      await scope.end(outcome)
      expect(events).toEqual(expected)
    }
  })

  it('logs an error of a callback and continues', async () => {
    const { scope, context, logger } = openScope()
    const events: string[] = []
    afterCommit(context, () => {
      throw failure
    })
    afterCommit(context, () => Promise.reject(failure))
    afterCommit(context, () => void events.push('third'))
    await scope.end('committed')
    expect(events).toEqual(['third'])
    expect(logger.at('error').map(({ fields }) => fields)).toEqual([{ err: failure }, { err: failure }])
  })

  it('logs a held ack that the broker does not accept', async () => {
    const { scope, logger } = openScope()
    const { message } = trackedMessage('data', {}, { answer: () => Promise.reject(failure) })
    scope.hold(message)
    await message.ack()
    await scope.end('committed')
    expect((await message.settled).failure).toBe(failure)
    expect(logger.at('error')).toHaveLength(1)
  })

  it('releases acks also when the logger throws at the failure of a callback', async () => {
    const scope = new TransactionScope(rootContext(), { logger: { ...silentLogger, error: fail } })
    const { message, calls } = trackedMessage('data')
    scope.hold(message)
    scope.afterCommit(fail)
    await message.ack()
    await scope.end('committed')
    expect(calls).toEqual([{ verdict: 'ack' }])
  })

  it('rejects every call once it has ended', async () => {
    const { scope, context } = openScope()
    await scope.end('committed')
    const { message } = trackedMessage('data')
    for (const call of [
      () => afterCommit(context, () => {}),
      () => afterRollback(context, () => {}),
      () => scope.hold(message),
      () => scope.nested(context),
    ]) {
      expect(call).toThrow(expect.objectContaining({ code: 'ACKORD_SCOPE_ENDED' }))
    }
    await expect(scope.end('committed')).rejects.toMatchObject({ code: 'ACKORD_SCOPE_ENDED' })
  })

  it('is required by afterCommit and afterRollback', () => {
    for (const call of [afterCommit, afterRollback]) {
      expect(() => call(rootContext(), () => {})).toThrow(expect.objectContaining({ code: 'ACKORD_TRANSACTION_REQUIRED' }))
    }
  })

  it('does not hold a message without acking', async () => {
    const { scope } = openScope()
    const message = new Message('data')
    scope.hold(message)
    expect(await message.ack()).toBe(false)
    expect(await message.nack(failure)).toBe(false)
    expect(scope.rollbackOnly).toBeUndefined()
    await scope.end('committed')
  })

  it('cannot be attached to a message, so that it does not leak to copies and outputs', () => {
    const { scope } = openScope()
    const { message } = trackedMessage('data')
    expect(() => message.withValue(transactionScopeKey, scope)).toThrow(/belongs to one call/)
    expect(message.withValue(contextKey<number>('n'), 1).context(rootContext()).get(transactionScopeKey)).toBeUndefined()
  })
})

describe('a scope with nacks and rejects', () => {
  it('keeps the first as the reason to roll back', async () => {
    const { scope } = openScope()
    const [first, second] = [trackedMessage('first'), trackedMessage('second')]
    scope.hold(first.message)
    scope.hold(second.message)
    await first.message.nack(failure)
    await second.message.reject(new Error('later'))
    scope.setRollbackOnly(new Error('last'))
    expect(scope.rollbackOnly?.error).toBe(failure)
  })

  it.each([
    ['carries nacks and rejects of a rolled back group out', undefined, [['nack'], ['reject']]],
    ['drops them when the messages are handled once more right away', 'forget', [[], []]],
  ] as const)('%s', async (_what, kept, expected) => {
    const { scope } = openScope()
    const [nacked, rejected] = [trackedMessage('nacked'), trackedMessage('rejected')]
    scope.hold(nacked.message)
    scope.hold(rejected.message)
    await nacked.message.nack(failure)
    await rejected.message.reject(failure)
    await scope.end('rolledBack', { verdicts: kept })
    expect([verdicts(nacked), verdicts(rejected)]).toEqual(expected)
    expect([nacked.message.state, rejected.message.state]).toEqual(kept === undefined ? ['nacked', 'rejected'] : ['pending', 'pending'])
  })

  it('drops those of nested scopes too', async () => {
    const { scope, context } = openScope()
    const { message, calls } = trackedMessage('data')
    scope.hold(message)
    scope.nested(context)
    await message.nack(failure)
    await scope.end('rolledBack', { verdicts: 'forget' })
    expect(calls).toEqual([])
    expect(await message.ack()).toBe(true)
  })
})

describe('scopes that overlap without being nested', () => {
  function openTwo() {
    const held = trackedMessage('data')
    const [first, second] = [openScope().scope, openScope().scope]
    first.hold(held.message)
    second.hold(held.message)
    return { ...held, first, second }
  }

  it('hold an ack until the last has ended', async () => {
    const { message, calls, first, second } = openTwo()
    await first.end('committed')
    await message.ack()
    expect(calls).toEqual([])
    await second.end('rolledBack')
    expect(calls).toEqual([])
    expect(message.state).toBe('pending')
  })

  it('carry out an ack that was requested while both were open', async () => {
    const { message, calls, first, second } = openTwo()
    expect(await message.ack()).toBe(true)
    await first.end('committed')
    await second.end('committed')
    expect(calls).toEqual([{ verdict: 'ack' }])
  })

  it('hold nothing any more once both were rolled back', async () => {
    const { message, calls, first, second } = openTwo()
    await first.end('rolledBack')
    await second.end('rolledBack')
    expect(await message.nack(failure)).toBe(true)
    expect(calls).toMatchObject([{ verdict: 'nack', error: failure }])
  })
})

describe('a scope that was never ended', () => {
  it('does not prevent the router from settling the message, and is logged', async () => {
    const { router, logger } = openWorld()
    router.use(() => async (message, context) => {
      new TransactionScope(context, { logger: silentLogger }).hold(message)
      throw failure
    })
    router.handle(handling(() => []))
    const input = tracked('m1')
    await router.run(sourceOf(input))
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: failure }])
    expect(logger.at('error').map(({ text }) => text)).toContainEqual(expect.stringContaining('never ended'))
  })
})

describe('a nested scope', () => {
  it('holds what its parent holds: an ack inside of it is undone with it', async () => {
    const { scope, context } = openScope()
    const { message, calls } = trackedMessage('data')
    scope.hold(message)
    const nested = scope.nested(context)
    await message.ack()
    await nested.end('rolledBack')
    await scope.end('committed')
    expect(calls).toEqual([])
  })

  it('does not revoke a verdict that its parent keeps', async () => {
    const { scope, context } = openScope()
    const { message, calls } = trackedMessage('data')
    scope.hold(message)
    await message.ack()
    const nested = scope.nested(context)
    expect(await message.nack(failure)).toBe(false)
    await nested.end('rolledBack')
    await scope.end('committed')
    expect(calls).toEqual([{ verdict: 'ack' }])
  })

  it('may be open beside another: after both the parent holds', async () => {
    const { scope, context } = openScope()
    const { message, calls } = trackedMessage('data')
    scope.hold(message)
    const [first, second] = [scope.nested(context), scope.nested(context)]
    await first.end('committed')
    await second.end('committed')
    await message.nack(failure)
    expect(scope.rollbackOnly?.error).toBe(failure)
    expect(calls).toEqual([])
  })

  it('that takes long to end does not let its parent end twice', async () => {
    const { scope, context } = openScope()
    const gate = deferred()
    scope.nested(context).afterRollback(() => gate.promise)
    let ran = 0
    scope.afterCommit(() => {
      ran += 1
    })
    const ended = scope.end('committed')
    await failureOf(async () => await scope.end('committed'), 'ACKORD_SCOPE_ENDED')
    gate.resolve()
    await ended
    expect(ran).toBe(1)
  })

  it('passes its callbacks and acks to its parent when it commits', async () => {
    const { scope, context } = openScope()
    const nested = scope.nested(context)
    const { message, calls } = trackedMessage('data')
    scope.hold(message)
    nested.hold(message)
    const events: string[] = []
    nested.afterCommit(() => void events.push('nested'))
    scope.afterCommit(() => void events.push('outer'))
    await message.ack()
    await nested.end('committed')
    expect(events).toEqual([])
    expect(calls).toEqual([])
    await scope.end('committed')
    expect(events).toEqual(['outer', 'nested'])
    expect(calls).toEqual([{ verdict: 'ack' }])
  })

  it('drops its callbacks and acks when it is rolled back', async () => {
    const { scope, context } = openScope()
    const nested = scope.nested(context)
    const { message, calls } = trackedMessage('data')
    scope.hold(message)
    nested.hold(message)
    const events: string[] = []
    nested.afterCommit(() => void events.push('nested committed'))
    nested.afterRollback(() => void events.push('nested rolled back'))
    await message.ack()
    await nested.end('rolledBack')
    expect(events).toEqual(['nested rolled back'])
    await scope.end('committed')
    expect(events).toEqual(['nested rolled back'])
    expect(calls).toEqual([])
    expect(message.state).toBe('pending')
  })

  it('that committed is undone with its parent', async () => {
    const { scope, context } = openScope()
    const nested = scope.nested(context)
    const events: string[] = []
    nested.afterCommit(() => void events.push('committed'))
    nested.afterRollback(() => void events.push('rolled back'))
    await nested.end('committed')
    await scope.end('rolledBack')
    expect(events).toEqual(['rolled back'])
  })

  it('passes a nack on: the message is nacked, so nothing around it may commit', async () => {
    const { scope, context } = openScope()
    const nested = scope.nested(context)
    const { message, calls } = trackedMessage('data')
    scope.hold(message)
    nested.hold(message)
    await message.nack(failure)
    await nested.end('rolledBack')
    expect(scope.rollbackOnly).toEqual({ error: failure })
    expect(calls).toEqual([])
    await scope.end('rolledBack')
    expect(calls.map(({ verdict }) => verdict)).toEqual(['nack'])
  })

  it('that was left open counts as rolled back when its parent ends', async () => {
    const { scope, context } = openScope()
    const nested = scope.nested(context)
    const events: string[] = []
    nested.afterCommit(() => void events.push('committed'))
    nested.afterRollback(() => void events.push('rolled back'))
    await scope.end('committed')
    expect(events).toEqual(['rolled back'])
    await failureOf(async () => await nested.end('committed'), 'ACKORD_SCOPE_ENDED')
  })
})

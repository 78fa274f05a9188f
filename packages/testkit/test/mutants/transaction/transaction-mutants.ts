import { randomUUID } from 'node:crypto'
import {
  type ContextKey,
  contextKey,
  enter,
  isAckordError,
  jsonMarshaler,
  Message,
  type Middleware,
  marshal,
  rootContext,
  withSignal,
} from '@ackord/core'
import { outputIdsKey, transactionScopeKey } from '@ackord/core/internal'
import { eventLoopTurn } from '../../../src/helpers/virtual-runtime.ts'
import type { OpenTransactionWorld, TransactionWorld } from '../../../src/suites/transaction/transaction-world.ts'
import type { Mutant } from '../../support/mutant.ts'
import {
  brokenStore,
  type DecorateStore,
  decoratedMemoryStore,
  detachedFrom,
  insideOf,
  seeing,
  standIn,
  WriteJournal,
  withOwnScope,
  wrapping,
} from './decorated-memory-store.ts'

const outside = rootContext()
const nestedKey: ContextKey<true> = contextKey('ackord.testkit.nested')

/** Changes the outputs before the outbox stores them. */
function storing(change: (outputs: readonly Message[]) => readonly Message[]): DecorateStore {
  return wrapping((real) => insideOf(real, async (message, inside, next) => change(await next(message, inside))))
}

/** Rolls back the handler's writes if `isRolledBack` returns true, and reports success. */
function rollingBackSilently(isRolledBack: () => boolean): (real: Middleware) => Middleware {
  return (real) => (next) => async (message, context) => {
    const rollback = new Error('rolled back')
    let outputs: readonly Message[] = []
    try {
      return await insideOf(real, async (same, inside) => {
        outputs = await next(same, inside)
        if (isRolledBack()) throw rollback
        return outputs
      })(next)(message, context)
    } catch (error) {
      if (error !== rollback) throw error
      return []
    }
  }
}

const commitsFailures: DecorateStore = wrapping((real) => (next) => async (message, context) => {
  let failure: { readonly error: unknown } | undefined
  const outputs = await insideOf(real, async (same, inside) => {
    try {
      return await next(same, inside)
    } catch (error) {
      failure = { error }
      return []
    }
  })(next)(message, context)
  if (failure !== undefined) throw failure.error
  return outputs
})

/** Every transaction also commits the writes of the others, whether those were rolled back or not. */
const sharesChanges: DecorateStore = (world, store) => {
  const journal = new WriteJournal()
  const wrap = wrapping((real) =>
    insideOf(real, async (message, inside, next) => {
      const outputs = await next(message, inside)
      await journal.writeAll(world, inside)
      return outputs
    }),
  )
  return { ...wrap(world, store), ...journal.recording(world) }
}

const holdsNoVerdicts: DecorateStore = wrapping((real) => detachedFrom(real, (message, inside, next) => next(message, inside)))

const ignoresRefusals = withOwnScope((scope, failed) => scope.end(failed ? 'rolledBack' : 'committed'))
const reportsCommits = withOwnScope((scope) => scope.end('committed'))

const ignoresSignal: DecorateStore = wrapping(
  (real) => (next) => (message, context) =>
    insideOf(real, (same, inside) => {
      const original = withSignal(inside, context.signal)
      return enter(original, () => next(same, original))
    })(next)(message, withSignal(context, new AbortController().signal)),
)

const storesEventsAtOnce: DecorateStore = wrapping((real, _, store) =>
  insideOf(real, async (message, inside, next) => {
    const outputs = await next(message, inside)
    const transaction = store.outbox.begin()
    await store.outbox.append(
      transaction,
      outputs.map((output) => ({ destination: 'order-events', message: marshal(output, jsonMarshaler) })),
    )
    transaction.commit()
    return []
  }),
)

/** Records the message before its transaction, permanently. */
const recordsAtOnce: DecorateStore = (world) => {
  const recorded = new Set<string>()
  return {
    transactional: (consumer) => (next) => async (message, context) => {
      const key = JSON.stringify([consumer, message.source, message.id])
      if (recorded.has(key)) {
        await message.ack()
        return []
      }
      recorded.add(key)
      return await world.transactional(consumer)(next)(message, context)
    },
  }
}

/** A transaction inside of another one is run by `nested`. */
function nesting(nested: (real: Middleware, store: Parameters<DecorateStore>[1]) => Middleware): DecorateStore {
  return wrapping((real, _, store) => (next) => {
    const alone = real(next)
    const inside = nested(real, store)(next)
    return (message, context) => (context.get(transactionScopeKey) === undefined ? alone : inside)(message, context)
  })
}

/** `write()` waits for a turn of the event loop, and so may come after the end of its transaction. */
function writingLate(world: TransactionWorld, after: TransactionWorld['write']): Pick<TransactionWorld, 'write'> {
  return {
    async write(context, key, value) {
      await eventLoopTurn()
      await eventLoopTurn()
      await world.write(context, key, value).catch(() => after(context, key, value))
    },
  }
}

/** The in-memory store with one defect each, and the scenario of the transaction suite that must catch it. */
export const transactionMutants: readonly Mutant<OpenTransactionWorld>[] = [
  { name: 'all worlds are one', caughtBy: 'the fixture does what it claims', open: sharedWorld() },
  ...brokenStore('the writes and the outputs of a handler are committed, and the message is acked', {
    'nothing is ever committed': wrapping(rollingBackSilently(() => true)),
    'events lose their order': storing((outputs) => outputs.toReversed()),
  }),
  ...brokenStore('a handler that fails leaves no trace: no write, no event', {
    'a failure commits the writes before it': commitsFailures,
  }),
  ...brokenStore('each attempt of a retry has its own transaction', {
    'a rollback leaves the changes for the next attempt': sharesChanges,
  }),
  ...brokenStore('everything is committed when the broker gets the ack', {
    'the ack does not wait for the commit': wrapping((real) =>
      detachedFrom(real, async (message, inside, next) => {
        const outputs = await next(message, inside)
        await message.ack()
        return outputs
      }),
    ),
  }),
  ...brokenStore('an ack inside the handler waits for the commit', {
    'verdicts are not held': holdsNoVerdicts,
  }),
  ...brokenStore('an ack inside a handler that fails is discarded', {
    'verdicts are not held': holdsNoVerdicts,
    'a rollback carries acks out': reportsCommits,
  }),
  ...brokenStore('code that uses the ambient context is inside the transaction too', {
    'the ambient context is the one outside': wrapping((real) =>
      insideOf(real, (message, inside, next, outer) => enter(outer, () => next(message, inside))),
    ),
  }),
  ...brokenStore('messages that are handled concurrently have separate transactions', {
    'all transactions are one': sharesChanges,
  }),
  ...brokenStore('a failed commit nacks the message and stores nothing', {
    'the failure of a commit is swallowed': wrapping((real) => (next) => async (message, context) => {
      try {
        return await real(next)(message, context)
      } catch (error) {
        if (!isAckordError(error, 'ACKORD_TRANSACTION_CONFLICT')) throw error
        return []
      }
    }),
    'events are stored outside of the transaction': storesEventsAtOnce,
    'the message is recorded outside of the transaction': recordsAtOnce,
  }),
  ...brokenStore('a nack inside the handler rolls back', {
    'rollback-only is ignored': ignoresRefusals,
    'events are stored outside of the transaction': storesEventsAtOnce,
  }),
  ...brokenStore('a reject inside the handler rolls back and remains a reject', {
    'rollback-only is ignored': ignoresRefusals,
  }),
  ...brokenStore('a handler that exceeds its time limit is rolled back, even if it then succeeds', {
    'the signal is ignored': ignoresSignal,
  }),
  ...brokenStore('a handler that is aborted by a forced stop is rolled back', {
    'the signal is ignored': ignoresSignal,
  }),
  ...brokenStore('after a failed write that the handler ignores, either everything is committed or nothing is', {
    'a COMMIT that answers ROLLBACK is taken for a commit': (world, store) => {
      let failed = false
      return {
        ...wrapping(rollingBackSilently(() => failed))(world, store),
        failWrite(context) {
          failed = true
          return world.failWrite(context)
        },
      }
    },
  }),
  ...brokenStore('rejects a write after the transaction has ended, whether it was committed or rolled back', {
    'the handle outlives its transaction': (world) => ({
      write: (context, key, value) => world.write(context, key, value).catch(() => world.write(outside, key, value)),
    }),
  }),
  ...brokenStore('a write that the handler does not await is part of the commit, or rejected', {
    'the commit does not wait for writes': (world) => writingLate(world, async () => {}),
  }),
  ...brokenStore('a write that the handler does not await is rolled back with the others', {
    'the rollback does not wait for writes': (world) => writingLate(world, (_, key, value) => world.write(outside, key, value)),
  }),
  ...brokenStore('afterCommit runs after the commit, outside of the transaction, and before the ack', {
    'callbacks run before the commit': ignoresRefusals,
    'the ack does not wait for the callbacks': holdsNoVerdicts,
  }),
  ...brokenStore('afterRollback runs after a rollback, and afterCommit does not', {
    'callbacks are told of a commit': reportsCommits,
  }),
  ...brokenStore('a nested transaction that fails is rolled back alone', {
    'the inner transaction is a part of the outer one': nesting(() => (next) => next),
  }),
  ...brokenStore('a nested transaction commits with the outer one, and not before', {
    'the inner transaction commits by itself': (world, store) => ({
      ...nesting((real) =>
        insideOf(real, (message, inside, next) => {
          const marked = inside.with(nestedKey, true)
          return enter(marked, () => next(message, marked))
        }),
      )(world, store),
      write: (context, key, value) => world.write(context.get(nestedKey) === true ? outside : context, key, value),
    }),
  }),
  ...brokenStore('concurrent nested transactions are committed or rolled back independently', {
    'a rollback undoes what others wrote since': nesting((_, store) => (next) => async (message, context) => {
      const transaction = store.transaction(context)
      const before = new Map(transaction?.entries())
      try {
        return await next(message, context)
      } catch (error) {
        for (const [key] of transaction?.entries() ?? []) if (!before.has(key)) transaction?.delete(key)
        throw error
      }
    }),
  }),
  ...brokenStore('a handler that sends COMMIT itself and then fails leaves no trace, and its message is handled when it is redelivered', {
    'a handler can commit': (world) => {
      const journal = new WriteJournal()
      return { ...journal.recording(world), commitByHand: () => journal.writeAll(world, outside) }
    },
  }),
]

/** The inbox sees another message in place of each one. */
function inboxSeeing(substitute: (message: Message, consumer: string) => Message): DecorateStore {
  return (world) => ({ transactional: (consumer) => seeing(world.transactional(consumer), (message) => substitute(message, consumer)) })
}

/** The inbox recognises messages by another key. */
function recognisingBy(keyOf: (consumer: string, source: string, id: string) => string): DecorateStore {
  return (world) => ({
    transactional: (consumer) =>
      seeing(world.transactional('all consumers'), (message) => {
        const { source = '', id } = message
        return id === undefined || id === '' ? message : standIn(message, { source: '/', id: keyOf(consumer, source, id) })
      }),
  })
}

/** A duplicate is an error. The inbox has acked it by then, so the ack is dropped. */
const refusesDuplicates: DecorateStore = (world) => ({
  transactional: (consumer) => (next) => async (message, context) => {
    let handled = false
    const run: typeof next = (_, inside) => {
      handled = true
      inside.get(transactionScopeKey)?.hold(message)
      return next(message, inside)
    }
    const outputs = await world.transactional(consumer)(run)(withoutAck(message), context)
    if (!handled) throw new Error('unique violation')
    return outputs
  },
})

/** The in-memory store with one defect each, and the scenario of the inbox suite that must catch it. */
export const inboxMutants: readonly Mutant<OpenTransactionWorld>[] = [
  ...brokenStore('a message is handled once, however often it is delivered', {
    'there is no inbox': inboxSeeing((message) => standIn(message, { id: randomUUID() })),
  }),
  ...brokenStore('one of 50 concurrent duplicates takes effect', {
    'there is a gap between the check and the record': (world) => {
      const recorded = new Set<string>()
      return {
        transactional: (consumer) => (next) => async (message, context) => {
          const key = JSON.stringify([consumer, message.source, message.id])
          if (recorded.has(key)) return []
          const outputs = await seeing(world.transactional(consumer), (same) => standIn(same, { id: randomUUID() }))(next)(message, context)
          recorded.add(key)
          return outputs
        },
      }
    },
  }),
  ...brokenStore('a message whose handling was rolled back is handled when it is redelivered', {
    'the message is recorded outside of the transaction': recordsAtOnce,
    'a nack does not roll the record back': ignoresRefusals,
  }),
  ...brokenStore('a duplicate of a message in progress is not acked before the first one has committed, and is handled if that one fails', {
    'a message counts as done when its handling begins': recordsAtOnce,
  }),
  ...brokenStore('another consumer handles the same message too', {
    'the key has no consumer': recognisingBy((_, source, id) => JSON.stringify([source, id])),
  }),
  ...brokenStore('the same id from another source is a different message', {
    'the key has no source': recognisingBy((consumer, _, id) => JSON.stringify([consumer, id])),
  }),
  ...brokenStore('ids that differ in case are different', {
    'ids are compared without case': recognisingBy((...parts) => JSON.stringify(parts).toLowerCase()),
  }),
  ...brokenStore('ids that differ in a trailing space are different', {
    'ids are padded': recognisingBy((consumer, source, id) => JSON.stringify([consumer, source, id.trimEnd()])),
  }),
  ...brokenStore('ids that look the same but differ in their bytes are different', {
    'ids are normalised': recognisingBy((...parts) => JSON.stringify(parts).normalize('NFC')),
  }),
  ...brokenStore('source and id are distinguished, wherever one ends and the other begins', {
    'the key is joined by colons': recognisingBy((...parts) => parts.join(':')),
  }),
  ...brokenStore("a duplicate is acked under 'onSuccess'", {
    'a duplicate is an error': refusesDuplicates,
  }),
  ...brokenStore("a duplicate is acked under 'manual'", {
    'a duplicate is left to the router': inboxSeeing(withoutAck),
  }),
  ...brokenStore("a duplicate is acked under 'forward'", {
    'a duplicate is an error': refusesDuplicates,
  }),
  ...brokenStore('rejects a message without an id, without calling the handler', {
    'a message without an id is handled as if it were new': inboxSeeing((message) => standIn(message, { id: message.id || randomUUID() })),
  }),
  ...brokenStore('a message with an unusual id is handled once or rejected: never lost, never handled twice', {
    'ids are cut at 255 characters': recognisingBy((consumer, source, id) => JSON.stringify([consumer, source, id.slice(0, 255)])),
    'ids are encoded, and lone surrogates become one character': recognisingBy((...parts) => Buffer.from(parts.join('\n')).toString()),
  }),
  ...brokenStore('event ids are derived from the message and are the same in each attempt', {
    'ids are random': wrapping((real) =>
      insideOf(real, (message, inside, next) => {
        const context = inside.with(outputIdsKey, () => randomUUID())
        return enter(context, () => next(message, context))
      }),
    ),
  }),
  ...brokenStore('events are complete: type, source, time and correlation id', {
    'attributes are lost': storing((outputs) => outputs.map(({ data, id, type }) => new Message(data, { id, type }))),
  }),
]

function withoutAck(message: Message): Message {
  return standIn(message, {}, async () => true)
}

function sharedWorld(): OpenTransactionWorld {
  const open = decoratedMemoryStore(() => ({}))
  let only: ReturnType<OpenTransactionWorld> | undefined
  return () => {
    only ??= open()
    return only
  }
}

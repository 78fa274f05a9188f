import {
  AckordError,
  type Context,
  type ContextKey,
  contextKey,
  deterministicIds,
  enter,
  jsonMarshaler,
  Message,
  type Middleware,
  marshal,
  middleware,
  outputIdsKey,
  type Process,
  silentLogger,
  TransactionRequiredError,
  TransactionScope,
  transactionScopeKey,
} from '@ackord/core'
import { eventLoopTurn } from '../helpers/virtual-runtime.ts'
import { type MemoryDatabase, MemorySession } from './memory-database.ts'

/** The transaction that a context is in. */
export const sessionKey: ContextKey<MemorySession> = contextKey('ackord.testkit.session', { callScoped: true })

/** Thrown to roll back what had succeeded, because its message was refused inside. */
class Refused extends Error {
  readonly reason: unknown
  readonly outputs: readonly Message[]

  constructor(reason: unknown, outputs: readonly Message[]) {
    super('The message was nacked or rejected inside of the transaction.')
    this.reason = reason
    this.outputs = outputs
  }
}

/** Of the savepoints in a transaction or savepoint, the latest. */
const turns = new WeakMap<TransactionScope, Promise<unknown>>()

/** One transaction per attempt: what every store's transaction middleware does, on a database of a hundred lines. */
export function memoryTransaction(database: MemoryDatabase): Middleware {
  const { rules } = database
  return middleware(
    { role: 'transaction', resource: database },
    (next) =>
      async function transaction(message, context) {
        const outer = context.get(sessionKey)
        const outerScope = context.get(transactionScopeKey)
        if (outer !== undefined && outerScope !== undefined) {
          if (!rules.hasSavepoints) return await next(message, context)
          const nested = () => savepoint(outer, outerScope, message, context, next)
          return rules.savepointsTakeTurns ? await inTurn(outerScope, nested) : await nested()
        }
        const session = new MemorySession(database)
        const scope = new TransactionScope(context, { logger: silentLogger })
        try {
          const outputs = await work(session, scope, message, context, next)
          if (rules.commitsFirst) session.commit()
          else void eventLoopTurn().then(() => session.commit())
          await scope.end('committed')
          return outputs
        } catch (error) {
          if (rules.rollsBack) session.rollback()
          else session.commit()
          await scope.end(rules.tellsOutcome ? 'rolledBack' : 'committed')
          if (!(error instanceof Refused)) throw error
          if (message.state === 'pending') throw error.reason
          return error.outputs
        }
      },
  )

  /** One after the other among those in the same transaction or savepoint. */
  function inTurn<R>(scope: TransactionScope, start: () => Promise<R>): Promise<R> {
    const turn = (turns.get(scope) ?? Promise.resolve()).then(start, start)
    turns.set(scope, turn)
    return turn
  }

  async function savepoint(session: MemorySession, outer: TransactionScope, message: Message, context: Context, next: Process) {
    const start = session.savepoint()
    const scope = outer.nested(context)
    try {
      const outputs = await work(session, scope, message, context, next)
      if (!rules.savepointsWait) session.commitFrom(start)
      await scope.end('committed')
      return outputs
    } catch (error) {
      session.rollbackTo(start)
      await scope.end('rolledBack')
      throw error instanceof Refused ? error.reason : error
    }
  }

  async function work(session: MemorySession, scope: TransactionScope, message: Message, context: Context, next: Process) {
    const { signal } = context
    if (rules.honoursSignal) signal.throwIfAborted()
    if (rules.holdsVerdicts) scope.hold(message)
    const inside = context.with(sessionKey, session).with(transactionScopeKey, scope)
    let outputs: readonly Message[]
    try {
      outputs = rules.entersContext ? await enter(inside, () => next(message, inside)) : await next(message, inside)
    } finally {
      if (rules.awaitsWrites) await session.drained()
    }
    if (rules.honoursSignal) signal.throwIfAborted()
    if (rules.honoursRefusals && scope.rollbackOnly !== undefined) throw new Refused(scope.rollbackOnly.error, outputs)
    return outputs
  }
}

/** Handles a message once, by a record in the transaction. */
export function memoryInbox(database: MemoryDatabase, consumer: string): Middleware {
  const { rules } = database
  return middleware(
    { role: 'inbox', resource: database },
    (next) =>
      async function inbox(message, context) {
        const session = sessionOf(context, 'memoryInbox()')
        const { id = '', source = '' } = message
        if (id === '' && rules.refusesMissingId) {
          throw new AckordError('ACKORD_MISSING_ATTRIBUTE', 'The inbox cannot recognise a message without an id.', { retryable: false })
        }
        const isNew = !rules.remembers || id === '' || (await session.recordOnce(rules.inboxKey(consumer, source, id)))
        if (!isNew) {
          if (!rules.acceptsDuplicates) throw new Error('unique violation')
          if (rules.acksDuplicates) await message.ack()
          return []
        }
        const inside = rules.givesIds ? context.with(outputIdsKey, deterministicIds(consumer, source, id)) : context
        return await enter(inside, () => next(message, inside))
      },
  )
}

/** Stores the outputs in the transaction and passes none on. */
export function memoryOutbox(database: MemoryDatabase): Middleware {
  return middleware(
    { role: 'outbox', resource: database },
    (next) =>
      async function outbox(message, context) {
        const session = sessionOf(context, 'memoryOutbox()')
        const outputs = await next(message, context)
        if (outputs.length === 0) return outputs
        const { keepsAttributes, keepsOrder } = database.rules
        const events = (keepsOrder ? outputs : outputs.toReversed()).map((output) => marshal(output, jsonMarshaler))
        await session.append(keepsAttributes ? events : events.map(({ data, id, type }) => new Message(data, { id, type })))
        return []
      },
  )
}

export function sessionOf(context: Context, caller: string): MemorySession {
  const session = context.get(sessionKey)
  if (session === undefined) throw new TransactionRequiredError(caller)
  return session
}

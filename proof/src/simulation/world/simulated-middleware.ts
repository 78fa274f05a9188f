import {
  beginAttempt,
  type Context,
  deterministicIds,
  enter,
  jsonMarshaler,
  type Message,
  type Middleware,
  marshal,
  middleware,
  type Process,
  type Publisher,
  type Runtime,
  silentLogger,
  TransactionRequiredError,
} from '@ackord/core'
import { outputIdsKey, startStopwatch, TransactionScope, transactionScopeKey } from '@ackord/core/internal'
import type { RecordTaker } from '@ackord/outbox'
import type { SimulationRules } from '../plan/simulation-rules.ts'
import { type DatabaseClient, type RemoteSession, sessionKey } from './clients.ts'
import type { InboxRecord } from './simulated-database.ts'

export interface SimulatedMiddlewareOptions {
  readonly client: DatabaseClient
  readonly service: string
  readonly runtime: Runtime
  /** Returns the receiver of records that were just committed. */
  readonly handOver: () => RecordTaker | undefined
  readonly publisher: Publisher
  readonly rules: SimulationRules
}

interface CommitOptions {
  readonly rules: SimulationRules
  readonly runtime: Runtime
  readonly taker: RecordTaker | undefined
}

/** Transaction, inbox and outbox on the simulated database, outermost first. Broken ones declare no role, because the router would refuse them. */
export function simulatedMiddleware(options: SimulatedMiddlewareOptions): readonly Middleware[] {
  const { client, rules } = options
  const parts: ['transaction' | 'inbox' | 'outbox', (next: Process) => Process][] = [
    ['transaction', transaction(options)],
    ['inbox', inbox(options)],
    ['outbox', outbox(options)],
  ]
  const known = parts.map(([role, wrap]) => middleware({ role, resource: client }, wrap))
  if (!rules.recordsByCommit) known.unshift(middleware({}, recordFirst(options)))
  if (!rules.retriesOutside) known.splice(1, 0, middleware({}, tryTwice))
  return known
}

/** Runs each attempt in its own transaction, and acks after the commit. */
function transaction({ client, service, runtime, handOver, rules }: SimulatedMiddlewareOptions): (next: Process) => Process {
  return (next) =>
    async function transaction(message, context) {
      if (!rules.acksAfterCommit) await message.ack()
      const session = await client.begin()
      const scope = new TransactionScope(context, { logger: silentLogger })
      let outputs: readonly Message[]
      try {
        if (rules.holdsVerdicts) scope.hold(message)
        const inside = context.with(sessionKey, session).with(transactionScopeKey, scope)
        outputs = await enter(inside, () => next(message, inside))
        context.signal.throwIfAborted()
        if (scope.rollbackOnly !== undefined) throw scope.rollbackOnly.error
      } catch (error) {
        await (rules.rollsBack ? session.rollback() : session.commit().then(ignore)).catch(ignore)
        await scope.end('rolledBack')
        throw error
      }
      try {
        await commit(session, { rules, runtime, taker: handOver() })
      } catch (error) {
        if (!rules.keepsRecordOfUnknown) await client.forget(recordOf(message, service, rules).key).then(ignore, ignore)
        await scope.end('unknown')
        throw error
      }
      await scope.end('committed')
      return outputs
    }
}

/** The lease of handed-over records is measured from before the commit is sent. */
async function commit(session: RemoteSession, { rules, runtime, taker }: CommitOptions): Promise<void> {
  const age = startStopwatch(runtime)
  try {
    const { tag, records } = await session.commit(taker?.lease(['events']))
    if (tag !== 'COMMIT' && rules.reportsAbortedCommit) throw new Error('COMMIT answered ROLLBACK.')
    if (records.length > 0) taker?.take(records, age())
  } catch (error) {
    if (rules.reportsCommitFailure) throw error
  }
}

/** Handles a message once, using a record in the transaction. */
function inbox({ client, service, rules }: SimulatedMiddlewareOptions): (next: Process) => Process {
  async function isNew(session: RemoteSession, record: InboxRecord): Promise<boolean> {
    if (!rules.recordsByCommit) return true
    if (!rules.recordsInTransaction) return await client.alone('record', record.effect, (alone) => alone.recordOnce(record))
    if (rules.recordsAtOnce) return await session.recordOnce(record)
    if (await session.isRecorded(record.key)) return false
    await session.addRecord(record)
    return true
  }

  return (next) =>
    async function inbox(message, context) {
      const { id = '', source = '' } = message
      if (!(await isNew(sessionOf(context), recordOf(message, service, rules)))) {
        if (!rules.acksDuplicates) throw new Error('unique violation')
        await message.ack()
        return []
      }
      const inside = context.with(outputIdsKey, deterministicIds(service, source, id))
      return await enter(inside, () => next(message, inside))
    }
}

/** Stores the outputs in the transaction and returns none. */
function outbox({ client, publisher, rules }: SimulatedMiddlewareOptions): (next: Process) => Process {
  return (next) =>
    async function outbox(message, context) {
      const session = sessionOf(context)
      const outputs = await next(message, context)
      if (outputs.length === 0) return outputs
      const records = outputs.map((output) => ({ destination: 'events', message: marshal(output, jsonMarshaler) }))
      if (!rules.publishesAfterCommit) {
        const messages = records.map((record) => record.message)
        await publisher.publish('events', messages, { signal: context.signal })
      }
      if (rules.storesInTransaction) await session.append(records)
      else await client.alone('append', `${message.id}`, (alone) => alone.append(records))
      return []
    }
}

/** The most common mistake in designs for Redis: the record is written before the work, and removed if the work fails. */
function recordFirst({ client, service, rules }: SimulatedMiddlewareOptions): (next: Process) => Process {
  return (next) =>
    async function recordFirst(message, context) {
      const record = recordOf(message, service, rules)
      if (!(await client.alone('record', record.effect, (alone) => alone.recordOnce(record)))) {
        await message.ack()
        return []
      }
      try {
        return await next(message, context)
      } catch (error) {
        await client.forget(record.key).then(ignore, ignore)
        throw error
      }
    }
}

/** A retry in the wrong place: the writes of the first attempt are still there. */
function tryTwice(next: Process): Process {
  return async function tryTwice(message, context) {
    try {
      return await next(message, context)
    } catch {
      const again = beginAttempt(context)
      return await enter(again, () => next(message, again))
    }
  }
}

function recordOf(message: Message, service: string, { keyHasConsumer, keyHasSource }: SimulationRules): InboxRecord {
  const { id, source } = message
  const key = JSON.stringify([keyHasConsumer ? service : '', keyHasSource ? source : '', id])
  return { key, effect: `${service} ${source} ${id}` }
}

export function sessionOf(context: Context): RemoteSession {
  const session = context.get(sessionKey)
  if (session === undefined) throw new TransactionRequiredError('The simulated middleware')
  return session
}

function ignore(): void {}

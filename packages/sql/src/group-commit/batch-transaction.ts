import { AckordError, beginAttempt, type Context, isAckordError, type Message, type Process, type Runtime, withSignal } from '@ackord/core'
import { type BatchItem, batchSeatKey, describeMessage, failedItems, inRoot, runLimited, TransactionScope } from '@ackord/core/internal'
import type { InboxKey } from '@ackord/outbox'
import { StatementQueue } from '../contract/statement-queue.ts'
import { TransactionEndedError } from '../errors.ts'
import type { SqlInbox } from '../inbox/inbox.ts'
import type { DatabasePort } from '../transaction/open-transaction.ts'
import type { TransactionRules } from '../transaction/run-transaction.ts'
import { abortedByAll } from './aborted-by-all.ts'
import { callOf, MemberSeat } from './batch-seat.ts'
import type { GroupMember, RunGroup } from './group-gatherer.ts'
import { type GroupSize, needsOwnTransaction, shrinkAfter } from './group-size.ts'
import { type Group, gathererOf, type Work } from './group-state.ts'
import { runPart, type SharedTransaction } from './shared-part.ts'
import { type RolledBack, sharedTransactions } from './shared-transaction.ts'

export interface BatchTransactionOptions extends TransactionRules {
  /** The type of the messages. */
  readonly type: string
  readonly inbox: SqlInbox
  /** The middleware inside of the inbox. */
  readonly process: Process
  /** Handles the same message in a transaction of its own. */
  readonly alone: Process
  /** Called with the key of a message that failed alone. */
  readonly onFailure: (key: InboxKey) => void
  readonly size: GroupSize
  /** The context of the router, without any message. */
  readonly root: Context
  readonly runtime: Runtime
}

type Results = ReadonlyMap<BatchItem, unknown>

/** How the handling of a member inside of the transaction has ended. */
type MemberEnd = { readonly error: unknown } | undefined

interface Member {
  readonly work: Work
  readonly seat: MemberSeat
  readonly ended: Promise<MemberEnd>
}

/**
 * Handles messages by one call of a batch handler, in one transaction:
 *
 *     each message passes the middleware up to the handler, one after the other, and waits there: its seat
 *     the function is called once for all of them
 *     each message returns through its middleware with its own result, one after the other; its outputs are gathered
 *
 * If that fails, the messages that are known to be the reason are handled alone and the others together again; if none is known, each half is handled
 * by itself. A lost conflict repeats the whole.
 */
export function batchTransaction<Handle>(port: DatabasePort<Handle>, options: BatchTransactionOptions): RunGroup {
  const { type, inbox, process, onFailure, size, root, retries, runtime, logger, metrics } = options
  const { dialect } = port

  function startMember(group: Group, work: Work, shared: SharedTransaction<Handle>, isNew: boolean): Member {
    const { message, context, key, timeouts } = work.member
    const seat = new MemberSeat({
      timeouts,
      mayWait: (inside) => port.find(inside)?.gathers === true,
      ended: () => shared.session.ended?.(),
    })
    const ended = new Promise<MemberEnd>((resolve) => {
      const part = {
        message,
        context: beginAttempt(context).with(batchSeatKey, seat),
        scope: work.scope,
        gather: gathererOf(group, work),
        run: isNew ? (inside: Context) => inbox.handle(process, message, inside, key) : () => inbox.skip(message),
        done(outputs: readonly Message[]) {
          work.outputs = outputs
          work.isDone = true
          timeouts.suspend()
          resolve(undefined)
          return outputs
        },
        failed(error: unknown) {
          timeouts.suspend()
          resolve({ error })
          return none
        },
      }
      work.member.runInAsyncScope(() => {
        timeouts.restart()
        runPart(shared, part)
      })
    })
    return { work, seat, ended }
  }

  /** Calls the function, with the time limit of one message for all of them: they have been waiting for each other. */
  async function callFunction(group: Group, shared: SharedTransaction<Handle>, members: readonly Member[]): Promise<Results> {
    const { call, items, signals } = callOf(members.map(({ seat }) => seat))
    using abandoned = abortedByAll(signals)
    const outside = withSignal(root, abandoned.signal)
    const scope = new TransactionScope(outside, { logger })
    group.callScope = scope

    function run(context: Context): Promise<Results> {
      return new Promise((resolve, reject) => {
        const part = {
          message: undefined,
          owner: `a batch of ${members.length} messages of type '${type}'`,
          context,
          scope,
          gather: gathererOf(group, undefined),
          run: (inside: Context) => call(items, inside),
          done(results: Results) {
            resolve(results)
            return results
          },
          failed(error: unknown) {
            reject(error)
            return noResults
          },
        }
        // Not in the async context, and so not in the trace, of one of the messages.
        inRoot(() => runPart(shared, part))
      })
    }

    const duration = Math.min(...members.map(({ work }) => work.member.timeouts.duration))
    if (duration === Infinity) return await run(outside)
    // biome-ignore lint/plugin: handlers see the deadline as an instant; the time-out itself is measured by its duration.
    const deadline = runtime.now() + duration
    const text = `Handling a batch of ${members.length} messages of type '${type}' took longer than ${duration} ms.`
    const late = (more = {}) => new AckordError('ACKORD_PROCESS_TIMEOUT', text, more)
    return await runLimited(run, outside, { deadline, remaining: duration, runtime, late })
  }

  async function handleAll(group: Group, shared: SharedTransaction<Handle>, fresh: Set<string>): Promise<void> {
    // The parts of the messages and of the call are open at the same time.
    const together = { ...shared, turns: new StatementQueue() }
    const failures = new Map<Work, unknown>()
    const seated: Member[] = []
    for (const work of group.works) {
      // The first of two messages with the same key is handled; the second is a duplicate.
      const member = startMember(group, work, together, fresh.delete(work.member.name))
      const end = await Promise.race([member.seat.arrived, member.ended])
      if (end === 'arrived') seated.push(member)
      else if (end !== undefined) {
        // The statements of the following messages could fail because of it.
        failures.set(work, end.error)
        break
      }
    }

    let results: Results = noResults
    let failure: MemberEnd = firstOf(failures)
    if (failure === undefined && seated.length > 0) {
      try {
        results = await callFunction(group, together, seated)
      } catch (error) {
        failure = { error }
        const failed = failedItems(error)
        for (const { work, seat } of seated) if (seat.item !== undefined && failed.has(seat.item)) failures.set(work, error)
      }
    }

    const isCalled = group.callScope !== undefined
    for (const { work, seat, ended } of seated) {
      if (failure === undefined) seat.resolve(seat.item === undefined ? undefined : results.get(seat.item))
      else seat.reject(failures.has(work) ? failure.error : rolledBackWith(failure.error, work))
      const end = await ended
      if (failure !== undefined || end === undefined) continue
      failure = end
      failures.set(work, end.error)
    }
    if (failure === undefined) return
    // If a part has committed early, the changes of the call are committed, and those messages must not be handled again.
    const isEnded = isCalled && shared.session.ended?.() !== undefined
    group.culprits = isEnded ? new Set(seated.map(({ work }) => work).filter(({ isDone }) => !isDone)) : new Set(failures.keys())
    throw failure.error
  }

  function onCommitted(count: number): void {
    size.succeeded(count)
    metrics?.observe('ackord.batch.size', count, { type })
  }

  const { handleTogether, handleAlone } = sharedTransactions(port, { ...options, handleAll, onCommitted })

  /** A lost conflict says nothing about the messages. */
  async function handleWithRetries(members: readonly GroupMember[]): Promise<RolledBack | undefined> {
    for (let retry = 1; ; retry += 1) {
      const rolledBack = await handleTogether(members)
      if (rolledBack === undefined || retry > retries || !dialect.isConflict(rolledBack.error)) return rolledBack
      if (rolledBack.members.length < members.length || members.every(isAborted)) return rolledBack
      metrics?.count('ackord.transaction.retries', 1, {})
      logger.debug({ err: rolledBack.error, type, retry }, 'The transaction of a batch lost a conflict with another one and is retried.')
    }
  }

  /** Whether the error may be due to a single message, so that the others can be handled together. */
  function isOfOne({ error, hasBegun, members, culprits }: RolledBack): boolean {
    if (!hasBegun || members.every(isAborted)) return false
    if (error instanceof TransactionEndedError || needsOwnTransaction(error) || dialect.refusesWrites(error)) return false
    // After a time-out the halves would need as long again, one after the other, and so would their halves.
    return culprits.size > 0 || !isAckordError(error, 'ACKORD_PROCESS_TIMEOUT')
  }

  /** Resolves to the parts that are still to be handled, one after the other. */
  async function handlePart(part: readonly GroupMember[]): Promise<readonly (readonly GroupMember[])[]> {
    const [first] = part
    if (first === undefined) return []
    if (part.length === 1) {
      if (!(await handleAlone(first))) onFailure(first.key)
      return []
    }
    const rolledBack = await handleWithRetries(part)
    if (rolledBack === undefined) return []
    const { members, error, culprits } = rolledBack
    shrinkAfter(error, dialect, size)
    metrics?.count('ackord.batch.rolled_back', 1, { type })
    const fields = { err: error, type, messages: part.length, failed: [...culprits].map(({ message }) => message.id) }
    if (needsOwnTransaction(error))
      logger.warn(fields, 'A batch was rolled back because its messages cannot share a transaction; each is handled alone.')
    else logger.debug(fields, 'A batch was rolled back; its messages are handled in smaller parts.')
    const each = (some: readonly GroupMember[]) => some.map((member) => [member])
    const others = members.filter((member) => !culprits.has(member))
    if (!isOfOne(rolledBack)) return each(members)
    if (culprits.size > 0) return [others, ...each(members.filter((member) => culprits.has(member)))]
    const half = Math.ceil(members.length / 2)
    return [members.slice(0, half), members.slice(half)]
  }

  return async function runBatch(members) {
    const parts: (readonly GroupMember[])[] = [members]
    for (let part = parts.shift(); part !== undefined; part = parts.shift()) parts.unshift(...(await handlePart(part)))
  }
}

const none: readonly Message[] = []
const noResults: Results = new Map()

function firstOf(failures: ReadonlyMap<Work, unknown>): MemberEnd {
  for (const error of failures.values()) return { error }
  return undefined
}

function rolledBackWith(cause: unknown, { member }: Work): AckordError {
  const text = `The batch of ${describeMessage(member.message)} was rolled back because another of its messages or their common call failed. The message is handled again.`
  return new AckordError('ACKORD_TRANSACTION_ABORTED', text, { cause })
}

function isAborted({ context }: GroupMember): boolean {
  return context.signal.aborted
}

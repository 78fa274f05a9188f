import { StoreRefusesWritesError } from '@ackord/core'
import { shownKey } from '../client/argument.ts'
import { callFailureOf, isRefusalOfWrites } from '../client/call-failure.ts'
import { CommitUnknownError, LeaseLostError, PartialCommitError, TransactionAbortedError, TransactionConflictError } from '../errors.ts'
import type { CommandQueue } from './command-queue.ts'
import { commandAt } from './commit-plan.ts'
import type { CommitAnswer } from './committer.ts'
import type { InboxClaim } from './unit-of-work.ts'

/** Another delivery of the message was committed while this one was handled. Nothing was written; the inbox acks the message. */
export class OvertakenError extends LeaseLostError {}

/** The error for the caller of a transaction that was not committed. `rule`: of the inbox around it. */
export function commitError(
  { verdict, detail, cause }: CommitAnswer,
  queue: CommandQueue,
  owner: string,
  rule: InboxClaim['rule'] | undefined,
): Error {
  const [number = '', ...words] = detail.split(' ')
  const text = words.join(' ')
  const { name, key } = commandAt(queue, Number(number))
  const of = key === undefined ? name : `${name} of ${shownKey(key)}`
  switch (verdict) {
    case 'PARTIAL':
      return new PartialCommitError(owner, `${of}: ${text}`)
    case 'UNKNOWN':
      return new CommitUnknownError(owner, cause)
    case 'CONFLICT':
      return new TransactionConflictError(owner, key)
    case 'TYPE':
      return new TransactionAbortedError(owner, `${of} is not possible, because the key holds a ${text}. Look at what else writes to it.`)
    case 'VALUE':
      return new TransactionAbortedError(owner, `${of} is not possible: ${text}.`)
    case 'MISSING':
      return new TransactionAbortedError(owner, `${of} is not possible, because there is no such key.`)
    case 'EVENT':
      return new TransactionAbortedError(owner, eventProblem(text), { retryable: !text.startsWith('CONFLICT') })
    case 'UNDONE':
      return new TransactionAbortedError(owner, `${of} failed, and what came before it was undone: ${text}.`)
    case 'REFUSED':
      return refusedBy(owner, detail, undefined)
    case 'FENCED':
      return fencedError(owner, cause)
    case 'LOST':
      if (detail.startsWith('partial:')) return new PartialCommitError(owner, detail)
      // Only `done:` proves that the message is done. Other values are of a worker in another mode, or of a stranger that wrote to the key.
      return rule === 'once' && detail.startsWith('done:') ? new OvertakenError(owner) : new LeaseLostError(owner)
    default:
      return new TransactionAbortedError(owner, `the commit script answered ${verdict} ${detail}.`)
  }
}

/** The commit did not reach the server in time, and is refused from now on. The failed call says why. */
function fencedError(owner: string, cause: unknown): Error {
  const { kind, text } = callFailureOf(cause)
  switch (kind) {
    case 'refusesWrites':
    case 'server':
      return refusedBy(owner, text, cause)
    case 'process':
      return new TransactionAbortedError(owner, `this process could not send it: ${text}.`, { cause, retryable: false })
    default:
      return new TransactionAbortedError(owner, 'Redis did not answer in time, and refuses the commit from now on.', { cause })
  }
}

function refusedBy(owner: string, text: string, cause: unknown): Error {
  if (isRefusalOfWrites(text)) return new StoreRefusesWritesError('Redis', text, { cause })
  const why = /^(?:TRYAGAIN|MOVED|ASK)\b/.test(text) ? 'the slot of its keys is being moved to another node' : 'Redis refused it'
  return new TransactionAbortedError(owner, `${why}: ${text}.`, { cause })
}

/** Why the outbox refuses the events of a transaction. */
function eventProblem(text: string): string {
  if (!text.startsWith('CONFLICT')) return `the outbox cannot be used: ${text}.`
  return "the outbox has a different event with the id of one of its events. Give each event an id of its own, or set the outbox's onConflict: 'ignore'."
}

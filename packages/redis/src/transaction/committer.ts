import { isAckordError, type OutputIds, StoreRefusesWritesError } from '@ackord/core'
import { shownKey } from '../client/argument.ts'
import { Coalescer } from '../client/coalescer.ts'
import type { KeySpace } from '../client/keys.ts'
import { type RedisArgument, type RedisPort, type Script, script } from '../client/port.ts'
import type { CommitFragment } from '../client/queued-command.ts'
import { callFailureOf, isRefusalOfWrites } from '../client/reply.ts'
import { CommitUnknownError, LeaseLostError, PartialCommitError, TransactionAbortedError, TransactionConflictError } from '../errors.ts'
import type { CommandQueue } from './command-queue.ts'
import { addTransaction, commandAt } from './commit-plan.ts'
import { commitScriptFor } from './commit-script.ts'

/** When a transaction may commit, and how long its marker stays. */
export interface CommitRule {
  /**
   * `lease`: while the marker holds the token. `once`: if there is no marker. `own`: the same, with a marker that no other transaction has, so that it
   * can be used as a fence against a late commit.
   */
  readonly marker: 'lease' | 'once' | 'own'
  /** Milliseconds for which the marker stays. */
  readonly retention: number
  /** Whether the transaction is undone when a command fails. */
  readonly undo: boolean
}

/** The claim of an inbox on a message, or of an idempotency store on a request: the marker that commits together with the writes. */
export interface MarkerClaim {
  readonly marker: string
  /** If several calls may try to commit under the claim: with a blank and a second word, which is different for each. */
  readonly token: string
  /** `lease`: the commit succeeds while the marker holds the token. `once`: it succeeds if there is no marker. */
  readonly rule: 'lease' | 'once'
  /** Milliseconds for which the marker stays after the commit. */
  readonly retention: number
  /** Makes the ids of the outputs of one attempt. Default: those of the context. */
  readonly outputIds?: (() => OutputIds) | undefined
  /** Stops the renewal of the lease, if there is one. Idempotent. */
  readonly stopRenewal: () => void
  /** Gives up the lease, if there is one. Never rejects. */
  readonly release: () => Promise<void>
  /** The error of a commit that found another value in the marker. Default: a `LeaseLostError`. */
  readonly lostError?: (() => Error) | undefined
}

export interface CommitRequest {
  readonly rule: CommitRule
  readonly marker: string
  readonly token: string
  readonly queue: CommandQueue
}

/** The answer of the commit script; `UNKNOWN`, with the cause; or `FENCED`: it was not committed, and will not be. */
export interface CommitAnswer {
  readonly verdict:
    | 'OK'
    | 'DONE'
    | 'LOST'
    | 'TYPE'
    | 'VALUE'
    | 'MISSING'
    | 'CONFLICT'
    | 'EVENT'
    | 'REFUSED'
    | 'PARTIAL'
    | 'UNDONE'
    | 'FENCED'
    | 'UNKNOWN'
  readonly detail: string
  readonly cause?: unknown
}

interface Waiting extends CommitRequest {
  readonly answer: (answer: CommitAnswer) => void
}

const ok: CommitAnswer = { verdict: 'OK', detail: '' }

/** Sends commits, those of one tick in one call, and finds out the result of commits that were not answered. */
export class Committer {
  readonly #port: RedisPort
  readonly #space: KeySpace
  readonly #size: number
  readonly #coalescers = new Map<string, Coalescer<Waiting>>()

  constructor(port: RedisPort, space: KeySpace, size: number) {
    this.#port = port
    this.#space = space
    this.#size = size
  }

  /** Never rejects. */
  commit(request: CommitRequest): Promise<CommitAnswer> {
    const { rule, marker, token, queue } = request
    const coalescer = this.#coalescerOf(rule)
    return new Promise((answer) => coalescer.add({ rule, marker, token, queue, answer }))
  }

  #coalescerOf({ marker, retention, undo }: CommitRule): Coalescer<Waiting> {
    const name = `${marker} ${retention} ${undo}`
    let coalescer = this.#coalescers.get(name)
    if (coalescer === undefined) {
      const space = this.#port.cluster ? this.#space : undefined
      coalescer = new Coalescer<Waiting>({
        size: this.#size,
        weightOf: (item) => item.queue.weight,
        groupOf: (item) => space?.slotOf(item.marker) ?? 0,
        run: (items) => this.#run(items),
      })
      this.#coalescers.set(name, coalescer)
    }
    return coalescer
  }

  #run(items: readonly Waiting[]): Promise<void> {
    try {
      return this.#send(items)
    } catch (error) {
      // Every caller must get an answer, also if the call cannot be made.
      this.#failed(items, error)
      return nothing
    }
  }

  #send(items: readonly Waiting[]): Promise<void> {
    const { rule } = items[0] as Waiting
    const keys: RedisArgument[] = []
    const args: RedisArgument[] = [rule.marker === 'lease' ? 'lease' : 'once', String(rule.retention)]
    for (const { marker, token, queue } of items) addTransaction(keys, args, marker, token, queue)
    const wakeUps = new Set<RedisArgument>()
    for (const { queue } of items) for (const stream of queue.wakeUps) wakeUps.add(stream)
    for (const stream of wakeUps) keys.push(stream)
    const commit = commitScriptFor(rule.undo, fragmentsOf(items))
    return this.#port.evaluate(commit, keys, args).then(
      (reply) => {
        const answers = reply as readonly unknown[]
        for (let index = 0; index < items.length; index += 1) (items[index] as Waiting).answer(readAnswer(answers[index]))
      },
      (error: unknown) => this.#failed(items, error),
    )
  }

  #failed(items: readonly Waiting[], error: unknown): void {
    // The server may have refused the whole call because of one transaction. Sent again alone, committed transactions answer DONE.
    if (items.length > 1 && !isAckordError(error, 'ACKORD_REDIS_UNANSWERED')) for (const item of items) void this.#run([item])
    else for (const item of items) this.#resolve(item, error)
  }

  #resolve({ rule, marker, token, answer }: Waiting, cause: unknown): void {
    const mode = rule.marker === 'own' ? 'fence' : rule.marker
    this.#port.evaluate(resolveScript, [marker], [token, mode, String(rule.retention)]).then(
      (reply) => {
        const resolved = readAnswer(reply)
        if (resolved.verdict !== 'LOST' || resolved.detail !== '') answer({ ...resolved, cause })
        // Without a fence, the commit may still arrive later, unless the call itself has failed.
        else answer({ verdict: callFailureOf(cause).kind === 'unanswered' ? 'UNKNOWN' : 'FENCED', detail: '', cause })
      },
      () => answer({ verdict: 'UNKNOWN', detail: '', cause }),
    )
  }
}

const nothing: Promise<void> = Promise.resolve()

function fragmentsOf(items: readonly Waiting[]): readonly CommitFragment[] {
  const [{ queue: first }] = items as readonly [Waiting]
  let all = first.fragments
  for (const { queue } of items) {
    // Most transactions have none, or the same as the one before.
    if (queue.fragments.length > 0 && queue.fragments.some((one) => !all.includes(one))) all = [...new Set([...all, ...queue.fragments])]
  }
  return all
}

function readAnswer(reply: unknown): CommitAnswer {
  const text = String(reply)
  if (text === 'OK') return ok
  const space = text.indexOf(' ')
  // One of the words of the script.
  if (space === -1) return { verdict: text as CommitAnswer['verdict'], detail: '' }
  return { verdict: text.slice(0, space) as CommitAnswer['verdict'], detail: text.slice(space + 1) }
}

/** Another delivery of the message was committed while this one was handled. Nothing was written; the inbox acks the message. */
export class OvertakenError extends LeaseLostError {}

/** The error for the caller of a transaction that was not committed. `claim`: the one that was to commit with it. */
export function commitError(
  { verdict, detail, cause }: CommitAnswer,
  queue: CommandQueue,
  owner: string,
  claim: MarkerClaim | undefined,
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
      if (claim?.lostError !== undefined) return claim.lostError()
      if (detail.startsWith('partial:')) return new PartialCommitError(owner, detail)
      // Only `done:` proves that the message is done. Other values are of a worker in another mode, or of a stranger that wrote to the key.
      return claim?.rule === 'once' && detail.startsWith('done:') ? new OvertakenError(owner) : new LeaseLostError(owner)
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

/**
 * Finds out the result of a commit that was not answered. KEYS: the marker. ARGV: token, rule, how long to fence. A commit that has not arrived yet is
 * refused from now on: with separate calls to read and to delete the marker, it could arrive in between.
 */
const resolveScript: Script = script(`
local held, token = redis.call('GET', KEYS[1]), ARGV[1]
if held and string.sub(held .. ' ', 1, #token + 6) == 'done:' .. token .. ' ' then return 'DONE' end
if held and string.sub(held, 1, #token + 9) == 'partial:' .. token .. ':' then return 'PARTIAL ' .. string.sub(held, #token + 10) end
if ARGV[2] == 'lease' then
  if held and held == string.match(token, '^%S+') then redis.call('DEL', KEYS[1]) end
  return 'FENCED'
end
if ARGV[2] == 'fence' and not held then
  redis.call('SET', KEYS[1], 'void', 'PX', ARGV[3])
  return 'FENCED'
end
return 'LOST ' .. (held or '')`)

/** KEYS: any. Returns a fingerprint of each key; '' for keys that do not exist. */
export const fingerprintScript: Script = script(`
local prints = {}
for n = 1, #KEYS do
  local held = redis.call('DUMP', KEYS[n])
  prints[n] = held and redis.sha1hex(held) or ''
end
return prints`)

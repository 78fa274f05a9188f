import { AsyncResource } from 'node:async_hooks'
import type { Context, Message, Runtime, Timer } from '@ackord/core'
import { AbortWatch, type RunningTimeouts, timeoutsOf } from '@ackord/core/internal'
import type { InboxKey } from '@ackord/outbox'
import { textOf } from '../records/text-limits.ts'

/** A message that waits for others, or is handled together with them. */
export class GroupMember extends AsyncResource {
  readonly message: Message
  readonly context: Context
  readonly key: InboxKey
  /** The key as one string. */
  readonly name: string
  /** By the monotonic clock. */
  readonly joinedAt: number
  /** Handler timeouts, which do not include the time spent waiting for other messages. */
  readonly timeouts: RunningTimeouts
  readonly resolve: (outputs: readonly Message[]) => void
  readonly reject: (error: unknown) => void

  constructor(
    message: Message,
    context: Context,
    key: InboxKey,
    settle: { readonly resolve: (outputs: readonly Message[]) => void; readonly reject: (error: unknown) => void },
    joinedAt: number,
  ) {
    super('ackord.group')
    this.message = message
    this.context = context
    this.key = key
    this.name = textOf(key)
    this.joinedAt = joinedAt
    this.timeouts = timeoutsOf(context)
    this.timeouts.suspend()
    this.resolve = settle.resolve
    this.reject = settle.reject
  }
}

export interface GroupGathererOptions {
  readonly size: number
  /** The current maximum size of a group, at most `size`. Default: `size`. */
  readonly limit?: (() => number) | undefined
  readonly groups: number
  /** Milliseconds for which the first message of a group waits for others; a group of the maximum size does not wait. Default: 0. */
  readonly wait?: number | undefined
  /** When it is aborted, no group waits for others any longer. Optional. */
  readonly stopping?: AbortSignal | undefined
  readonly run: RunGroup
  readonly runtime: Runtime
}

/** Handles the members and settles each of them. Never rejects. */
export type RunGroup = (members: readonly GroupMember[]) => Promise<void>

/**
 * Gathers messages that wait at the same time into groups. While the maximum number of groups is running, the next one gathers, so groups grow with the
 * load. Beyond that no group waits to fill up, unless there is a `wait`.
 */
export class GroupGatherer {
  readonly #turn: () => Promise<void>
  readonly #limit: () => number
  /** Whether messages are currently handled without waiting. */
  readonly #isEachAlone: () => boolean
  readonly #groups: number
  readonly #runtime: Runtime
  readonly #wait: number
  readonly #stopping: AbortSignal | undefined
  readonly #run: RunGroup
  #waiting: GroupMember[] = []
  // Until the first of the waiting messages has waited for long enough.
  #timer: Timer | undefined
  readonly #aborts = new AbortWatch((signal) => {
    const left = this.#waiting.filter(({ context }) => context.signal === signal)
    this.#waiting = this.#waiting.filter(({ context }) => context.signal !== signal)
    for (const member of left) member.reject(signal.reason)
    this.#start()
  })
  #running = 0
  #starting = false

  constructor(options: GroupGathererOptions) {
    this.#turn = async () => await options.runtime.yield?.()
    this.#limit = options.limit ?? (() => options.size)
    this.#isEachAlone = () => options.limit?.() === 1
    this.#groups = options.groups
    this.#runtime = options.runtime
    this.#wait = options.wait ?? 0
    this.#stopping = options.stopping
    options.stopping?.addEventListener('abort', () => this.#start(), { once: true })
    this.#run = options.run
  }

  join(message: Message, context: Context, key: InboxKey): Promise<readonly Message[]> {
    const { signal } = context
    if (signal.aborted) return Promise.reject(signal.reason)
    return new Promise((resolve, reject) => {
      this.#waiting.push(new GroupMember(message, context, key, { resolve, reject }, this.#wait === 0 ? 0 : this.#runtime.monotonic()))
      this.#aborts.add(signal)
      this.#start()
    })
  }

  /**
   * At the end of this turn, so that messages which arrive in the same turn are handled together: otherwise the first of a burst would get a
   * transaction of its own.
   */
  #start(): void {
    if (this.#starting || !this.#mayStart()) return
    this.#starting = true
    void this.#turn().then(() => {
      this.#starting = false
      while (this.#mayStart()) this.#startGroup()
    })
  }

  #mayStart(): boolean {
    const mayRun = this.#running < this.#groups || this.#isEachAlone()
    return mayRun && this.#waiting.length > 0 && this.#hasWaited()
  }

  /** Whether the first message need not wait for others any longer; otherwise a timer checks that again. */
  #hasWaited(): boolean {
    const [first] = this.#waiting
    if (this.#wait === 0 || first === undefined || this.#waiting.length >= this.#limit() || this.#stopping?.aborted === true) return true
    const left = first.joinedAt + this.#wait - this.#runtime.monotonic()
    if (left <= 0) return true
    this.#timer ??= this.#runtime.setTimeout(() => {
      this.#timer = undefined
      this.#start()
    }, left)
    return false
  }

  #startGroup(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    const members = this.#waiting.splice(0, this.#limit())
    for (const member of members) this.#aborts.remove(member.context.signal)
    this.#running += 1
    void this.#run(members).finally(() => {
      this.#running -= 1
      this.#start()
    })
  }
}

import { AsyncResource } from 'node:async_hooks'
import type { Context, Message, Runtime } from '@ackord/core'
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
  /** Handler timeouts, which do not include the time spent waiting for other messages. */
  readonly timeouts: RunningTimeouts
  readonly resolve: (outputs: readonly Message[]) => void
  readonly reject: (error: unknown) => void

  constructor(
    message: Message,
    context: Context,
    key: InboxKey,
    settle: { readonly resolve: (outputs: readonly Message[]) => void; readonly reject: (error: unknown) => void },
  ) {
    super('ackord.group')
    this.message = message
    this.context = context
    this.key = key
    this.name = textOf(key)
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
  readonly run: RunGroup
  readonly runtime: Runtime
}

/** Handles the members and settles each of them. Never rejects. */
export type RunGroup = (members: readonly GroupMember[]) => Promise<void>

/**
 * Gathers messages that wait at the same time into groups. No group waits to fill up: while the maximum number of groups is running, the next one
 * gathers, so groups grow with the load.
 */
export class GroupGatherer {
  readonly #turn: () => Promise<void>
  readonly #limit: () => number
  /** Whether messages are currently handled without waiting. */
  readonly #isEachAlone: () => boolean
  readonly #groups: number
  readonly #run: RunGroup
  #waiting: GroupMember[] = []
  readonly #aborts = new AbortWatch((signal) => {
    const left = this.#waiting.filter(({ context }) => context.signal === signal)
    this.#waiting = this.#waiting.filter(({ context }) => context.signal !== signal)
    for (const member of left) member.reject(signal.reason)
  })
  #running = 0
  #starting = false

  constructor(options: GroupGathererOptions) {
    this.#turn = async () => await options.runtime.yield?.()
    this.#limit = options.limit ?? (() => options.size)
    this.#isEachAlone = () => options.limit?.() === 1
    this.#groups = options.groups
    this.#run = options.run
  }

  join(message: Message, context: Context, key: InboxKey): Promise<readonly Message[]> {
    const { signal } = context
    if (signal.aborted) return Promise.reject(signal.reason)
    return new Promise((resolve, reject) => {
      this.#waiting.push(new GroupMember(message, context, key, { resolve, reject }))
      this.#aborts.add(signal)
      this.#start()
    })
  }

  /**
   * At the end of this turn, so that messages which arrive in the same turn are handled together: otherwise the first of a burst would get a
   * transaction of its own.
   */
  #start(): void {
    if (this.#starting || this.#waiting.length === 0 || !this.#mayStart()) return
    this.#starting = true
    void this.#turn().then(() => {
      this.#starting = false
      while (this.#waiting.length > 0 && this.#mayStart()) this.#startGroup()
    })
  }

  #mayStart(): boolean {
    return this.#running < this.#groups || this.#isEachAlone()
  }

  #startGroup(): void {
    const members = this.#waiting.splice(0, this.#limit())
    for (const member of members) this.#aborts.remove(member.context.signal)
    this.#running += 1
    void this.#run(members).finally(() => {
      this.#running -= 1
      this.#start()
    })
  }
}

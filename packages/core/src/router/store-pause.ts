import { exponentialBackoff } from '../async/backoff.ts'
import { causesOf, isAckordError } from '../errors.ts'
import { isRetryable, type Message } from '../message/message.ts'
import type { DescribedMetrics } from '../ports/metric-table.ts'
import type { Logger } from '../ports/observability.ts'
import type { Runtime, Timer } from '../ports/runtime.ts'

/**
 * The next step of a message that waited. `probe`: it is tried alone, and reports the result by `tried()`. `go`: it continues. `stop`: it is nacked, because the
 * router stops.
 */
export type PauseOutcome = 'probe' | 'go' | 'stop'

interface StorePauseOptions {
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: DescribedMetrics | undefined
}

const delays = exponentialBackoff({ initial: 250, max: 10_000 })

/** Milliseconds of accepted writes after which the next pause starts with a short delay again. */
const quietPeriod = 60_000

/** Milliseconds after which another message is tried in parallel to one that has not ended: its handler may hang. */
const slowTry = 30_000

/** Milliseconds after which a refused message is nacked: it may be the only one that is refused, and others wait behind it. */
const maxWait = 600_000

const maxRemembered = 1000

/**
 * Keeps messages while their store accepts no writes. If they were nacked, each of them would be redelivered immediately and refused again, and on
 * Redis the bookkeeping of a nack itself takes memory. Waiting messages keep their slots in the router, so that it reads no more.
 *
 *     open ─ a message is refused ─▶ paused: messages wait; after a growing delay the oldest one is tried
 *       ▲                               ├─ it is refused: waits again, with a longer delay
 *       └───────── it succeeds ─────────┘  it fails otherwise: the next one is tried immediately
 *                                          it takes long: the next one is tried in parallel
 *
 * A message that was refused for ten minutes is nacked, so that others are tried instead. When it is refused again it does not pause the router.
 */
export class StorePause {
  readonly #options: StorePauseOptions
  readonly #waiting: ((outcome: PauseOutcome) => void)[] = []
  /** Ids of messages that were nacked after the maximum wait. */
  readonly #returned = new Set<string>()
  #pausedAt: number | undefined
  #openedAt = -Infinity
  #tries = 0
  /** Whether the next message is tried without a delay: the last one has not shown whether the store accepts writes. */
  #owesTry = false
  #timer: Timer | undefined
  /** Set while a message is tried. */
  #try: Timer | undefined
  #stopped = false

  constructor(options: StorePauseOptions) {
    this.#options = options
  }

  /** Whether messages should wait instead of being tried. */
  get paused(): boolean {
    return this.#pausedAt !== undefined
  }

  /** Whether a refused message may wait. Not for too long, and not twice. */
  mayWait({ id }: Message, keptSince: number | undefined): boolean {
    if (id !== undefined && this.#returned.has(id)) return false
    if (keptSince === undefined || this.#options.runtime.monotonic() - keptSince < maxWait) return true
    if (id !== undefined) this.#returned.add(id)
    const [oldest] = this.#returned
    if (this.#returned.size > maxRemembered && oldest !== undefined) this.#returned.delete(oldest)
    return false
  }

  /** A message was refused. Calls back when it is its turn. */
  refused(error: unknown, turn: (outcome: PauseOutcome) => void): void {
    const { runtime, logger, metrics } = this.#options
    if (this.#pausedAt === undefined && !this.#stopped) {
      this.#pausedAt = runtime.monotonic()
      if (this.#pausedAt - this.#openedAt > quietPeriod) this.#tries = 0
      metrics?.count('ackord.store.pauses', 1, {})
      logger.warn(
        { err: error },
        'The store refuses writes. The router stops reading, keeps the messages it has, and tries one at a time until the store accepts writes again.',
      )
    }
    this.wait(turn)
  }

  /** For a message that arrives during a pause. */
  wait(turn: (outcome: PauseOutcome) => void): void {
    if (this.#stopped) {
      turn('stop')
      return
    }
    this.#waiting.push(turn)
    this.#plan()
  }

  /** The tried message has ended, and reports whether the store accepted its writes. All others continue if it did. */
  tried(outcome: 'accepted' | 'refused' | 'unknown'): void {
    this.#endTry()
    this.#owesTry = outcome === 'unknown'
    if (outcome === 'accepted') this.#open()
    else this.#plan()
  }

  /** The router stops: no message waits any longer. */
  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
    this.#timer = undefined
    this.#endTry()
    for (const turn of this.#waiting.splice(0)) turn('stop')
  }

  #endTry(): void {
    this.#try?.cancel()
    this.#try = undefined
  }

  #open(): void {
    const { runtime, logger } = this.#options
    if (this.#pausedAt === undefined) return
    this.#openedAt = runtime.monotonic()
    const paused = Math.round(this.#openedAt - this.#pausedAt)
    this.#pausedAt = undefined
    logger.info({ paused, messages: this.#waiting.length }, 'The store accepts writes again. The router continues to read.')
    for (const turn of this.#waiting.splice(0)) turn('go')
  }

  #plan(): void {
    const { runtime } = this.#options
    if (this.#timer !== undefined || this.#try !== undefined || this.#waiting.length === 0 || this.#pausedAt === undefined) return
    const immediately = this.#owesTry
    this.#owesTry = false
    if (!immediately) this.#tries += 1
    this.#timer = runtime.setTimeout(
      () => {
        this.#timer = undefined
        const turn = this.#waiting.shift()
        if (turn === undefined) return
        this.#try = runtime.setTimeout(() => {
          this.#try = undefined
          this.#plan()
        }, slowTry)
        turn('probe')
      },
      immediately ? 0 : delays(this.#tries, runtime.random),
    )
  }
}

/**
 * Whether an error, or one of its causes, says that the store accepts no writes. Not if the error puts the fault in the message, and not if it concerns the database of one tenant:
 * the messages of the others must not wait for it.
 */
export function isRefusal(error: unknown): boolean {
  if (!isRetryable(error)) return false
  for (const cause of causesOf(error)) {
    if (isAckordError(cause, 'ACKORD_TENANT_UNAVAILABLE')) return false
    if (isAckordError(cause, 'ACKORD_STORE_REFUSES_WRITES')) return true
  }
  return false
}

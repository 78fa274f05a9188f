import { AckordError } from '../errors.ts'

/** pending → acked | nacked | rejected. The first call decides, and a final state never changes. */
export type AckState = 'pending' | Verdict
export type Verdict = 'acked' | 'nacked' | 'rejected'

export interface NackOptions {
  /** How long the broker should wait before it delivers the message again, in milliseconds. Default: the broker's own. */
  readonly retryAfter?: number | undefined
}

/** The final state of a message. */
export interface Settlement {
  readonly verdict: Verdict
  /** Why it was nacked or rejected. */
  readonly error?: unknown
  /** The broker's error if it did not accept the verdict; it will redeliver the message. */
  readonly failure?: unknown
}

/** The settlement of a message that was handled by `handleOne()`. `failure`: the broker, or the dead letter, did not accept the verdict; the message must be delivered again. */
export interface HandleOneResult extends Settlement {
  /** For how many milliseconds a redelivery is useless; only for a nacked message, and if known. */
  readonly retryAfter?: number | undefined
}

/** How a source carries out a verdict. At most one method is called, once. A rejection means that the broker did not accept the verdict. */
export interface AckCallbacks {
  ack(): void | Promise<void>
  nack(error: unknown, options: NackOptions): void | Promise<void>
  /** Rejects the message permanently. `createReceiver()` implements it for sources. */
  reject(error: unknown): void | Promise<void>
  /** Where a rejected message goes, for log lines. Default: unknown. */
  readonly deadLetter?: string | undefined
}

const yes = Promise.resolve(true)
const no = Promise.resolve(false)

/** The one settlement that a message and its copies share. */
export class Acking {
  /** For telemetry, which keeps here what it knows about the message: a map from messages to that would cost more than all the rest. */
  note: unknown
  readonly #callbacks: AckCallbacks
  // The original of a fork. Once it is settled, by this fork or another, its state applies to all of them.
  readonly #original: Acking | undefined
  #state: AckState = 'pending'
  #error: unknown
  #retryAfter: number | undefined
  #failure: unknown
  #finished = false
  #hold: AckHold | undefined
  #waiting: ((settlement: Settlement) => void)[] | undefined

  constructor(callbacks: AckCallbacks, original?: Acking) {
    this.#callbacks = callbacks
    this.#original = original
  }

  get state(): AckState {
    const original = this.#original
    return original !== undefined && original.state !== 'pending' ? original.state : this.#state
  }

  get error(): unknown {
    return this.#original === undefined ? this.#error : this.#original.error
  }

  get deadLetter(): string | undefined {
    return this.#callbacks.deadLetter
  }

  /** The delay of a nack, in milliseconds. */
  get retryAfter(): number | undefined {
    return this.#original === undefined ? this.#retryAfter : this.#original.retryAfter
  }

  /** Why the broker did not accept the verdict. */
  get failure(): unknown {
    return this.#original === undefined ? this.#failure : this.#original.failure
  }

  /** The verdict is decided and the broker has not answered yet. */
  get busy(): boolean {
    return this.#state !== 'pending' && !this.#finished
  }

  get settled(): Promise<Settlement> {
    if (this.#original !== undefined) return this.#original.settled
    if (this.#finished) return Promise.resolve(this.#settlement())
    return new Promise((resolve) => {
      this.#waiting ??= []
      this.#waiting.push(resolve)
    })
  }

  ack(): Promise<boolean> {
    return this.#settle('acked', undefined, undefined)
  }

  nack(error: unknown, options: NackOptions | undefined): Promise<boolean> {
    const reason = error ?? new AckordError('ACKORD_NACKED', 'The message was nacked without a reason.')
    return this.#settle('nacked', reason, options)
  }

  reject(error: unknown): Promise<boolean> {
    const reason = error ?? new AckordError('ACKORD_REJECTED', 'The message was rejected without a reason.', { retryable: false })
    return this.#settle('rejected', reason, undefined)
  }

  /** From now on verdicts are kept instead of carried out, until the hold is released. Holds nest; the innermost one keeps the verdict. */
  hold(onRefusal: (error: unknown) => void): AckHold {
    const hold: AckHold = {
      onRefusal,
      outer: this.#liveHold(),
      released: false,
      intent: undefined,
      release: (kept) => {
        hold.released = true
        const { intent } = hold
        if (intent === undefined || kept === 'none' || (intent.verdict === 'acked' && kept === 'refusals')) return undefined
        return this.#settle(intent.verdict, intent.error, intent.options)
      },
    }
    this.#hold = hold
    return hold
  }

  /** Whether a scope may hold verdicts back. */
  get held(): boolean {
    return this.#hold !== undefined
  }

  /**
   * Drops the holds of scopes that have not ended, with the verdicts they keep, and tells the scopes not to commit: one may still be running. `false`
   * if there were none.
   */
  dropHolds(reason: () => unknown): boolean {
    const innermost = this.#liveHold()
    if (innermost === undefined) return false
    this.#hold = undefined
    const error = reason()
    for (let hold: AckHold | undefined = innermost; hold !== undefined; hold = hold.outer) if (!hold.released) hold.onRefusal(error)
    return true
  }

  /** Resolves when this acking's own verdict is answered, or the original is settled: a fork does not wait for its siblings. */
  get answered(): Promise<void> {
    if (this.#finished || this.state !== this.#state) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waiting ??= []
      this.#waiting.push(() => resolve())
      void this.#original?.settled.then(() => resolve())
    })
  }

  /** The innermost hold that is not released. Scopes may end in any order. */
  #liveHold(): AckHold | undefined {
    let hold = this.#hold
    while (hold?.released === true) hold = hold.outer
    this.#hold = hold
    return hold
  }

  #settle(verdict: Verdict, error: unknown, options: NackOptions | undefined): Promise<boolean> {
    const { state } = this
    if (state !== 'pending') return state === verdict ? yes : no
    const hold = this.#hold === undefined ? undefined : this.#liveHold()
    if (hold !== undefined) return keep(hold, verdict, error, options)

    this.#state = verdict
    this.#error = error
    this.#retryAfter = options?.retryAfter
    let answer: void | Promise<void>
    try {
      answer = this.#call(verdict, error, options)
    } catch (failure) {
      this.#finish(failure)
      return handled(Promise.reject(failure))
    }
    if (answer === undefined) {
      this.#finish(undefined)
      return yes
    }
    return handled(this.#await(answer))
  }

  #call(verdict: Verdict, error: unknown, options: NackOptions | undefined): void | Promise<void> {
    if (verdict === 'acked') return this.#callbacks.ack()
    if (verdict === 'nacked') return this.#callbacks.nack(error, options ?? {})
    return this.#callbacks.reject(error)
  }

  async #await(answer: Promise<void>): Promise<boolean> {
    try {
      await answer
    } catch (failure) {
      this.#finish(failure)
      throw failure
    }
    this.#finish(undefined)
    return true
  }

  #finish(failure: unknown): void {
    this.#failure = failure
    this.#finished = true
    const waiting = this.#waiting
    if (waiting === undefined) return
    this.#waiting = undefined
    const settlement = this.#settlement()
    for (const resolve of waiting) resolve(settlement)
  }

  #settlement(): Settlement {
    // `busy` and `finished` exclude 'pending' here.
    return { verdict: this.#state as Verdict, error: this.#error, failure: this.#failure }
  }
}

/** A verdict that waits for a transaction to end. */
export interface AckHold {
  readonly onRefusal: (error: unknown) => void
  readonly outer: AckHold | undefined
  released: boolean
  intent: { readonly verdict: Verdict; readonly error: unknown; readonly options: NackOptions | undefined } | undefined
  /**
   * Carries out the kept verdict, in the next outer hold if there is one: any verdict, only a nack or reject, or none. A verdict that is not carried
   * out is dropped, and the message is pending again.
   */
  release(kept: 'all' | 'refusals' | 'none'): Promise<boolean> | undefined
}

function keep(hold: AckHold, verdict: Verdict, error: unknown, options: NackOptions | undefined): Promise<boolean> {
  // The first call decides, also one that an outer hold keeps.
  for (let outer: AckHold | undefined = hold; outer !== undefined; outer = outer.outer) {
    if (!outer.released && outer.intent !== undefined) return outer.intent.verdict === verdict ? yes : no
  }
  hold.intent = { verdict, error, options }
  if (verdict !== 'acked') hold.onRefusal(error)
  return yes
}

/**
 * Creates one acking per fork. The original is acked when every fork is, each counted once however often it is acked; the first nack or reject
 * decides for all.
 */
export function forkAcking(original: Acking, count: number): Acking[] {
  let open = count
  const callbacks: AckCallbacks = {
    ack() {
      open -= 1
      return open === 0 ? settledBy(original.ack()) : undefined
    },
    nack: (error, options) => settledBy(original.nack(error, options)),
    reject: (error) => settledBy(original.reject(error)),
    deadLetter: original.deadLetter,
  }
  return Array.from({ length: count }, () => new Acking(callbacks, original))
}

/** Applies one verdict to two ackings: an output's own first, then the forward to its input. If the first fails, the second is nacked. */
export function chainAcking(first: Acking, second: Acking): Acking {
  async function both(verdict: Verdict, error: unknown, options: NackOptions | undefined): Promise<void> {
    try {
      const taken = await settleWith(first, verdict, error, options)
      if (!taken) throw first.error ?? new AckordError('ACKORD_NACKED', 'The output had already been settled with another verdict.')
    } catch (failure) {
      await second.nack(failure, undefined)
      throw failure
    }
    await settleWith(second, verdict, error, options)
  }
  return new Acking({
    ack: () => both('acked', undefined, undefined),
    nack: (error, options) => both('nacked', error, options),
    reject: (error) => both('rejected', error, undefined),
    deadLetter: first.deadLetter,
  })
}

function settleWith(acking: Acking, verdict: Verdict, error: unknown, options: NackOptions | undefined): Promise<boolean> {
  if (verdict === 'acked') return acking.ack()
  return verdict === 'nacked' ? acking.nack(error, options) : acking.reject(error)
}

async function settledBy(answer: Promise<boolean>): Promise<void> {
  await answer
}

/** The failure is also in `settled`: a caller that does not await `ack()` must not crash the process with an unhandled rejection. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {})
  return promise
}

import type { Context } from '@ackord/core'
import type { BatchCall, BatchItem, BatchSeat, RunningTimeouts } from '@ackord/core/internal'
import { NeedsOwnTransactionError } from '../errors.ts'

export interface SeatOptions {
  readonly timeouts: RunningTimeouts
  /** Whether the statements of other messages may follow in the context of the handler: no savepoint is open there. */
  readonly mayWait: (context: Context) => boolean
  /** Why the transaction no longer exists; `undefined` if it does. */
  readonly ended: () => unknown
}

/**
 * Where a message waits in its handler for the call of its batch:
 *
 *     open ─ arrive() ─▶ waiting ─ resolve(result) or reject(error) ─▶ left
 */
export class MemberSeat implements BatchSeat {
  /** Resolves when the message waits for the call. */
  readonly arrived: Promise<'arrived'>
  item: BatchItem | undefined
  call: BatchCall | undefined
  signal: AbortSignal | undefined
  readonly #options: SeatOptions
  #onArrived: (end: 'arrived') => void = () => {}
  #leave: { readonly resolve: (result: unknown) => void; readonly reject: (error: unknown) => void } | undefined

  constructor(options: SeatOptions) {
    this.#options = options
    this.arrived = new Promise((resolve) => {
      this.#onArrived = resolve
    })
  }

  arrive(call: BatchCall, item: BatchItem, context: Context): Promise<unknown> {
    const { timeouts, mayWait, ended } = this.#options
    const end = ended()
    if (end !== undefined) return Promise.reject(end)
    if (this.item !== undefined) return Promise.reject(new NeedsOwnTransactionError(calledTwice))
    if (!mayWait(context)) return Promise.reject(new NeedsOwnTransactionError(insideSavepoint))
    this.item = item
    this.call = call
    this.signal = context.signal
    // The message waits for the others again.
    timeouts.suspend()
    return new Promise((resolve, reject) => {
      this.#leave = { resolve, reject }
      this.#onArrived('arrived')
    })
  }

  resolve(result: unknown): void {
    this.#options.timeouts.restart()
    this.#leave?.resolve(result)
  }

  reject(error: unknown): void {
    this.#options.timeouts.restart()
    this.#leave?.reject(error)
  }
}

/** The one call of the messages that wait. */
export interface SeatedCall {
  readonly call: BatchCall
  readonly items: readonly BatchItem[]
  /** Those of the handlers, which time limits of inner middleware abort too. */
  readonly signals: readonly AbortSignal[]
}

/** Throws if middleware has led the messages to different handlers. */
export function callOf(seats: readonly MemberSeat[]): SeatedCall {
  const items: BatchItem[] = []
  const signals: AbortSignal[] = []
  let found: BatchCall | undefined
  for (const { call, item, signal } of seats) {
    if (call === undefined || item === undefined || signal === undefined) continue
    found ??= call
    if (call !== found) throw new NeedsOwnTransactionError(differentHandlers)
    items.push(item)
    signals.push(signal)
  }
  if (found === undefined) throw new Error('A batch has no messages.')
  return { call: found, items, signals }
}

const calledTwice = 'A middleware called a batch handler a second time for a message of its batch.'
const insideSavepoint =
  'A middleware has opened a savepoint around a batch handler, for one message, and the call for all messages cannot be inside of it.'
const differentHandlers = 'A middleware has changed the type of a message, so that the messages of a batch arrived at different handlers.'

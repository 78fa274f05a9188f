import { exponentialBackoff, idle, systemRuntime } from '@ackord/core'
import { abortable, linkedController, withTimeLimit } from '@ackord/core/internal'
import { unlessAborted } from '../lifecycle.ts'
import { CommandError, type ExitCode, exitCode, interruption, isInterruption } from '../output/errors.ts'
import { explainFailure } from '../output/explain-failure.ts'
import type { Session } from '../session.ts'
import { formatDuration } from '../settings/duration.ts'
import { type Refresh, type WatchView, watchView } from './watch-view.ts'

/** An open connection to the watched store. */
interface Watched<T> {
  /** For output, without secrets. */
  readonly address: string
  read(): Promise<T>
  [Symbol.asyncDispose](): Promise<void>
}

export interface WatchOptions<T> {
  /** Milliseconds between the end of a refresh and the start of the next one. */
  readonly interval: number
  readonly open: () => Promise<Watched<T>>
  /** `before`: the value of the previous refresh; `undefined` in the first one. */
  readonly show: (value: T, before: T | undefined) => Refresh
  /** Milliseconds without an answer after which the store is opened again; at least ten times as long as its slowest answer. Default: 30,000. */
  readonly answerTimeout?: number | undefined
}

/** Milliseconds after which a person should see that the command waits for the store. */
const longWait = 3000
const maxRetryDelay = 30_000

/**
 * Reads and shows until the command is stopped, which is no failure. A failure of the first refresh ends it; after that the store is opened again, with
 * growing pauses.
 */
export async function watch<T>({ output, signal, suspension }: Session, options: WatchOptions<T>): Promise<ExitCode> {
  using stopping = linkedController(signal)
  const stopListening = output.on('error', () => stopping.abort(interruption()))
  const view = watchView(output, options.interval, suspension)
  const refreshes = new Refreshes(options, view, stopping.signal)
  try {
    while (await idle(systemRuntime, await refreshes.next(), stopping.signal));
  } catch (error) {
    if (!stopping.signal.aborted) throw error
  } finally {
    stopListening()
    // First of all: closing a connection may take a while.
    view[Symbol.dispose]()
    await refreshes[Symbol.asyncDispose]()
  }
  if (signal.aborted && !isInterruption(signal.reason)) throw signal.reason
  return exitCode.ok
}

class Refreshes<T> implements AsyncDisposable {
  readonly #options: WatchOptions<T>
  readonly #view: WatchView
  readonly #signal: AbortSignal
  readonly #retryDelay: (failures: number) => number
  #watched: Watched<T> | undefined
  #closing: Promise<void> = Promise.resolve()
  #last: { readonly value: T; readonly address: string } | undefined
  #failures = 0
  #slowest = 0

  constructor(options: WatchOptions<T>, view: WatchView, signal: AbortSignal) {
    this.#options = options
    this.#view = view
    this.#signal = signal
    const { interval } = options
    const backoff = exponentialBackoff({ initial: interval, max: Math.max(maxRetryDelay, interval) })
    this.#retryDelay = (failures) => backoff(failures, () => systemRuntime.random())
  }

  /** Resolves to the milliseconds to wait before the next refresh. */
  async next(): Promise<number> {
    const { interval } = this.#options
    const slow = systemRuntime.setTimeout(() => this.#view.waiting(), Math.max(longWait, interval))
    try {
      await this.#refresh()
      this.#failures = 0
      return interval
    } catch (error) {
      if (this.#signal.aborted || this.#last === undefined) throw error
      this.#close()
      this.#failures += 1
      const delay = this.#retryDelay(this.#failures)
      this.#view.failed(explainFailure(error, this.#last.address), delay)
      return delay
    } finally {
      slow.cancel()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#close()
    await this.#closing
  }

  async #refresh(): Promise<void> {
    await abortable(this.#closing, this.#signal)
    this.#watched ??= await unlessAborted(this.#options.open(), this.#signal)
    const { address } = this.#watched
    const startedAt = systemRuntime.monotonic()
    const value = await this.#answerOf(this.#watched)
    this.#slowest = Math.max(this.#slowest, systemRuntime.monotonic() - startedAt)
    this.#view.refreshed(this.#options.show(value, this.#last?.value))
    this.#last = { value, address }
  }

  /** A connection that is dead and has not noticed must not end the refreshes. The first answer may take any time, as in a command without --watch. */
  async #answerOf(watched: Watched<T>): Promise<T> {
    const { answerTimeout = 30_000 } = this.#options
    const limit = this.#last === undefined ? Infinity : Math.max(answerTimeout, 10 * this.#slowest)
    const late = () =>
      new CommandError(`${watched.address} did not answer within ${formatDuration(limit)}.`, { exitCode: exitCode.unreachable })
    return await withTimeLimit(systemRuntime, limit, late, () => abortable(watched.read(), this.#signal))
  }

  #close(): void {
    const watched = this.#watched
    this.#watched = undefined
    // A connection that failed before may fail to close.
    if (watched !== undefined) this.#closing = watched[Symbol.asyncDispose]().catch(() => {})
  }
}

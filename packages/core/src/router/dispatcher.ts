import { setMaxListeners } from 'node:events'
import { SlotTable } from '../async/collections.ts'
import { AckordError } from '../errors.ts'
import { FairQueue } from '../fairness/fair-queue.ts'
import type { FairnessSettings } from '../fairness/fairness-options.ts'
import { logFields } from '../message/log-fields.ts'
import { describeMessage } from '../message/marshal.ts'
import { ackingOf, isMessage, type Message } from '../message/message.ts'
import type { DescribedMetrics } from '../ports/metric-table.ts'
import type { Logger } from '../ports/observability.ts'
import type { Runtime, Timer } from '../ports/runtime.ts'

export interface DispatcherOptions {
  /** Handles and settles one message, and reports when that is done. */
  readonly work: (message: Message, done: () => void) => void
  /** Settles a message whose ordering key could not be determined. Never rejects. */
  readonly refuse: (message: Message, error: unknown) => Promise<void>
  readonly concurrency: number
  readonly orderingKey: ((message: Message) => string | undefined) | undefined
  /** The maximum number of messages that wait: behind others of their key, or for the turn of their tenant. */
  readonly buffer: number
  /** `undefined`: messages start in the order in which they become ready. */
  readonly fairness: FairnessSettings | undefined
  readonly shutdownTimeout: number
  /** The router stops: messages that wait inside of `work` for something other than a handler must end. */
  readonly release: () => void
  /** Aborts the handlers' signals. */
  readonly force: (reason: AckordError) => void
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: DescribedMetrics | undefined
}

interface KeyQueue {
  readonly waiting: Message[]
}

interface Ready {
  readonly message: Message
  readonly queue: KeyQueue | undefined
  readonly key: string | undefined
}

const warnEvery = 5000
/** The messages that may start when there is a slot, and that no other message of their key is ahead of. */
interface ReadyQueue {
  readonly length: number
  push(ready: Ready): unknown
  shift(): Ready | undefined
  splice(start: 0): Ready[]
}

// A source and handlers that never wait for I/O would starve timers and signals.
const turnEvery = 500

/**
 * Reads messages and dispatches them: several concurrently, those of one key in order.
 *
 *     reading ─ source ends ─▶ draining ─ all work done ─▶ ended
 *             ─ stop()      ─▶ stopping: reads no more, nacks waiting messages ─ work done ─▶ ended
 *                                       └ shutdownTimeout passed: handlers' signals are aborted, and waited for
 */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #reading = new AbortController()
  readonly #keyQueues = new Map<string, KeyQueue>()
  readonly #settling = new Set<Promise<unknown>>()
  readonly #working = new SlotTable<Message>()
  // The message of the one-by-one loop, which does not use the slots.
  #alone: Message | undefined
  readonly #ready: ReadyQueue
  readonly #fair: FairQueue<Ready> | undefined
  #waiting = 0
  #stopping = false
  #onRoom: (() => void) | undefined
  #onStop: (() => void) | undefined
  #onDrained: (() => void) | undefined
  #onSourceStuck: (() => void) | undefined
  // The source while its `next()` is pending.
  #pulling: AsyncIterator<Message> | undefined
  #ended: Promise<void> | undefined

  constructor(options: DispatcherOptions) {
    this.#fair = options.fairness === undefined ? undefined : this.#createFairQueue(options, options.fairness)
    this.#ready = this.#fair ?? []
    this.#options = this.#fair === undefined ? options : assigning(options, this.#fair)
    // An engine has one listener per input. Avoids Node's MaxListenersExceededWarning.
    setMaxListeners(0, this.#reading.signal)
  }

  /** The number of messages being handled. */
  get running(): number {
    return this.#working.size + (this.#alone === undefined ? 0 : 1)
  }

  /** The number of messages that were read and wait for their turn. */
  get queued(): number {
    return this.#ready.length + this.#waiting
  }

  /** The number of tenants whose messages wait. */
  get waitingTenants(): number {
    return this.#fair?.waitingTenants ?? 0
  }

  get stopping(): boolean {
    return this.#stopping
  }

  /**
   * Resolves when the source has ended, or after `stop()`, and all messages are settled. Rejects if the source failed, after the same. `cooperative`
   * sources end when the signal is aborted and are waited for; others are left pending in their `next()`.
   */
  run(messages: (signal: AbortSignal) => AsyncIterable<Message>, options: { readonly cooperative: boolean }): Promise<void> {
    this.#ended ??= this.#run(messages, options.cooperative)
    return this.#ended
  }

  /** Idempotent. Resolves when the run has ended, with any result. */
  async stop(): Promise<void> {
    if (!this.#stopping) {
      this.#stopping = true
      this.#reading.abort()
      this.#nackQueued()
      this.#fair?.stop()
      this.#options.release()
      // With fairness, messages may wait although none is running.
      this.#onDrained?.()
      this.#onRoom?.()
      this.#onStop?.()
    }
    await this.#ended?.catch(() => {})
  }

  async #run(messages: (signal: AbortSignal) => AsyncIterable<Message>, cooperative: boolean): Promise<void> {
    let timers: Timer | undefined
    const stopped = new Promise<void>((resolve) => {
      this.#onStop = () => {
        timers = this.#startForceTimers()
        resolve()
      }
    })
    const stuck = new Promise<void>((resolve) => {
      this.#onSourceStuck = resolve
    })
    if (this.#stopping) this.#onStop?.()
    let failure: { readonly error: unknown } | undefined
    const read = this.#read(messages).catch((error: unknown) => {
      // Some sources answer an abort with its reason. Stopping is not a failure.
      if (!this.#stopping || error !== this.#reading.signal.reason) failure = { error }
    })

    await Promise.race([read, stopped])
    // Also when the read has failed: the source is no longer read.
    void read.then(() => this.#reading.abort())
    if (cooperative) await Promise.race([read, stuck])
    void this.#leavePending()
    await this.#drained()
    this.#fair?.stop()
    // A source that is not stuck in its `next()` is closed properly.
    if (this.#pulling === undefined) await Promise.race([read, stuck])
    // Messages that were read before the stop and nacked because of it.
    await Promise.all(this.#settling)
    this.#onStop = undefined
    timers?.cancel()
    if (failure !== undefined) throw sourceFailed(failure.error)
  }

  /** Closes a source whose `next()` is pending when the router stops: a generator runs this when it resumes, other iterators can end immediately. */
  async #leavePending(): Promise<void> {
    try {
      await this.#pulling?.return?.()
    } catch {
      // The source is no longer read.
    }
  }

  async #read(messages: (signal: AbortSignal) => AsyncIterable<Message>): Promise<void> {
    const iterator = messages(this.#reading.signal)[Symbol.asyncIterator]()
    const reading = { open: true }
    try {
      await this.#pullAll(iterator, reading)
    } finally {
      this.#pulling = undefined
      this.#fair?.sourceEnded()
      this.#onDrained?.()
      if (reading.open) await iterator.return?.()
    }
  }

  /** No async/await on the hot path: a loop that awaits would cost three more promises per message. */
  #pullAll(iterator: AsyncIterator<Message>, reading: { open: boolean }): Promise<void> {
    const { concurrency, orderingKey, buffer, runtime } = this.#options
    const oneByOne = concurrency === 1 && orderingKey === undefined
    const maxMessages = concurrency + (orderingKey === undefined ? 0 : buffer)
    let read = 0
    return new Promise((resolve, reject) => {
      const pull = (): void => {
        if (this.#stopping) {
          resolve()
          return
        }
        if (this.running + this.queued >= maxMessages) {
          this.#onRoom = () => {
            this.#onRoom = undefined
            pull()
          }
          return
        }
        // An iterator that threw or is done is not closed.
        reading.open = false
        this.#pulling = iterator
        try {
          Promise.resolve(iterator.next()).then(acceptOrFail, reject)
        } catch (error) {
          reject(error)
        }
      }

      const acceptOrFail = (result: IteratorResult<Message>): void => {
        try {
          accept(result)
        } catch (error) {
          reject(error)
        }
      }

      const accept = ({ done, value }: IteratorResult<Message>): void => {
        this.#pulling = undefined
        if (done === true) {
          resolve()
          return
        }
        reading.open = true
        if (!isMessage(value)) throw new TypeError('The source yielded something that is not a Message.')
        read += 1
        const paused = read % turnEvery === 0 ? runtime.yield?.() : undefined
        if (paused === undefined) start(value)
        else paused.then(() => start(value)).catch(reject)
      }

      const start = (message: Message): void => {
        if (this.#stopping) {
          this.#nack(message, shutdownError(message))
          resolve()
          return
        }
        if (oneByOne) {
          this.#alone = message
          const finished = () => {
            this.#alone = undefined
            pull()
          }
          this.#options.work(message, finished)
          return
        }
        this.#accept(message)
        this.#startReady()
        pull()
      }

      pull()
    })
  }

  #accept(message: Message): void {
    let key: string | undefined
    try {
      key = this.#options.orderingKey?.(message)
    } catch (error) {
      const slot = this.#working.add(message)
      const refused = () => this.#finished({ message, queue: undefined, key: undefined }, slot)
      void this.#options.refuse(message, error).then(refused, refused)
      return
    }
    if (key === undefined) {
      this.#ready.push({ message, queue: undefined, key })
      return
    }
    const queue = this.#keyQueues.get(key)
    if (queue !== undefined) {
      queue.waiting.push(message)
      this.#waiting += 1
      return
    }
    const opened: KeyQueue = { waiting: [] }
    this.#keyQueues.set(key, opened)
    this.#ready.push({ message, queue: opened, key })
  }

  #createFairQueue({ concurrency, runtime, logger, metrics }: DispatcherOptions, settings: FairnessSettings): FairQueue<Ready> {
    return new FairQueue<Ready>({
      settings,
      concurrency,
      runtime,
      logger,
      metrics,
      onReady: () => this.#startReady(),
      onReturn: ({ message, queue, key }, error, retryAfter) => {
        this.#nack(message, error, retryAfter)
        // Those behind it are nacked with it.
        if (queue !== undefined && key !== undefined) this.#advance(queue, key, message)
        this.#onRoom?.()
        if (this.running === 0) this.#onDrained?.()
      },
    })
  }

  #startReady(): void {
    while (this.running < this.#options.concurrency) {
      const next = this.#ready.shift()
      if (next === undefined) return
      const slot = this.#working.add(next.message)
      const finished = () => this.#finished(next, slot)
      this.#options.work(next.message, finished)
    }
  }

  #finished({ message, queue, key }: Ready, slot: number): void {
    this.#working.remove(slot)
    if (queue !== undefined && key !== undefined) this.#advance(queue, key, message)
    this.#startReady()
    this.#onRoom?.()
    if (this.running === 0) this.#onDrained?.()
  }

  #advance(queue: KeyQueue, key: string, message: Message): void {
    // A reject that the broker did not accept causes a redelivery, as a nack does.
    const isRedelivered = message.state === 'nacked' || (message.state === 'rejected' && ackingOf(message)?.failure !== undefined)
    if (isRedelivered || this.#stopping) this.#sendBack(queue, key, message)
    const next = queue.waiting.shift()
    if (next === undefined) {
      this.#keyQueues.delete(key)
      return
    }
    this.#waiting -= 1
    this.#ready.push({ message: next, queue, key })
  }

  /**
   * Redelivered behind a later message of its key, the message would be out of order: those behind it are nacked with it, except the message itself
   * if it has been redelivered already.
   */
  #sendBack(queue: KeyQueue, key: string, message: Message): void {
    const retryAfter = ackingOf(message)?.retryAfter
    const again = (waiting: Message) =>
      !this.#stopping && message.id !== undefined && waiting.id === message.id && waiting.source === message.source
    const back = queue.waiting.filter((waiting) => !again(waiting))
    const kept = queue.waiting.filter(again)
    for (const waiting of back) this.#nack(waiting, this.#stopping ? shutdownError(waiting) : keyNacked(waiting, key), retryAfter)
    this.#waiting -= back.length
    queue.waiting.splice(0, Infinity, ...kept)
  }

  /** Messages that wait behind a running one of their key are left to `#advance`: if they were nacked before it, they would be redelivered before it. */
  #nackQueued(): void {
    for (const { message, queue, key } of this.#ready.splice(0)) {
      this.#nack(message, shutdownError(message))
      if (queue === undefined || key === undefined) continue
      this.#sendBack(queue, key, message)
      this.#keyQueues.delete(key)
    }
  }

  #nack(message: Message, error: AckordError, retryAfter?: number): void {
    const nacked = message.nack(error, { retryAfter }).catch((failure: unknown) => {
      this.#options.logger.error(
        { err: failure, ...logFields(message) },
        'The broker did not accept a nack; it will redeliver the message by its own rules.',
      )
    })
    const tracked = nacked.finally(() => this.#settling.delete(tracked))
    this.#settling.add(tracked)
  }

  async #drained(): Promise<void> {
    while (this.running > 0 || this.queued > 0) {
      await new Promise<void>((resolve) => {
        this.#onDrained = resolve
      })
    }
  }

  #startForceTimers(): Timer {
    const { runtime, shutdownTimeout, force, logger } = this.#options
    let timer: Timer | undefined
    const warn = () => {
      const working = this.#alone === undefined ? this.#working.all() : [this.#alone]
      const handling = working.slice(0, 10).map(describeMessage)
      const text =
        handling.length === 0
          ? 'Stopping takes long: the source did not end although its signal was aborted. It is abandoned.'
          : 'Stopping takes long: handlers still run although their signals were aborted. The router waits for them; observe context.signal, and do not await stop() in a handler.'
      logger.warn({ running: this.running, handling }, text)
      this.#onSourceStuck?.()
      timer = runtime.setTimeout(warn, warnEvery)
    }
    const abort = () => {
      force(new AckordError('ACKORD_SHUTDOWN', `The router was stopped and its shutdownTimeout of ${shutdownTimeout} ms has passed.`))
      timer = runtime.setTimeout(warn, warnEvery)
    }
    if (shutdownTimeout === 0) abort()
    else if (shutdownTimeout !== Infinity) timer = runtime.setTimeout(abort, shutdownTimeout)
    return { cancel: () => timer?.cancel() }
  }
}

/** The same options, with the tenant of each message that is read, and with the end of its turn. */
function assigning(options: DispatcherOptions, fair: FairQueue<Ready>): DispatcherOptions {
  const { orderingKey, work } = options
  return {
    ...options,
    orderingKey(message) {
      fair.assign(message)
      return orderingKey?.(message)
    },
    work(message, done) {
      work(message, () => {
        fair.finished(message)
        done()
      })
    },
  }
}

function shutdownError(message: Message): AckordError {
  return new AckordError('ACKORD_SHUTDOWN', `The router was stopped before it handled ${describeMessage(message)}.`)
}

function keyNacked(message: Message, key: string): AckordError {
  return new AckordError(
    'ACKORD_KEY_NACKED',
    `An earlier message with the ordering key '${key}' was nacked; ${describeMessage(message)} is nacked with it, to keep their order.`,
  )
}

function sourceFailed(cause: unknown): AckordError {
  return new AckordError('ACKORD_SOURCE_FAILED', 'The source failed; the messages read from it were handled and settled.', { cause })
}

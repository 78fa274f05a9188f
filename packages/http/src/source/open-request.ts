import { AckordError, type Runtime, type Timer } from '@ackord/core'
import { handled, notHandled, notInTime, unavailable } from './answers.ts'
import type { HeldMessage } from './http-iteration.ts'
import { type EventContent, memoryOf } from './read-request.ts'

export interface OpenRequestOptions {
  readonly settleTimeout: number
  readonly runtime: Runtime
  /** Aborted when the client has disconnected. */
  readonly client: AbortSignal
}

/** Why a verdict has no effect. */
type Loss = 'late' | 'gone' | 'disposed'

/**
 * A request that waits for its messages.
 *
 *     waiting ─ all are settled ─▶ over: 200 if all are acked, else 500, or 503 if one was released
 *             ─ settleTimeout ─▶ over: 504. Messages being handled go on, the others are dropped: the sender sends them again
 *             ─ the source is disposed ─▶ over: 503
 *             ─ the client disconnects ─▶ unanswerable: goes on as before, but verdicts are refused ─ all are settled, or settleTimeout ─▶ over
 */
export class OpenRequest {
  readonly answered: Promise<Response>
  /** Resolves when the request has ended. */
  readonly over: Promise<void>
  readonly messages: readonly MessageOfRequest[]
  readonly #settleTimeout: number
  #unsettled: number
  #refused = false
  #released = false
  #retryAfter = 0
  #loss: Loss | undefined
  #isOver = false
  #answer: (response: Response) => void = () => {}
  #end: () => void = () => {}

  constructor(contents: readonly EventContent[], options: OpenRequestOptions) {
    const { runtime, settleTimeout, client } = options
    this.#settleTimeout = settleTimeout
    this.#unsettled = contents.length
    this.answered = new Promise((resolve) => {
      this.#answer = resolve
    })
    const timer = runtime.setTimeout(() => this.#lose('late', notInTime()), settleTimeout, { keepAlive: false })
    const onDisconnect = () => {
      this.#loss ??= 'gone'
      this.#answer(unavailable('The client has disconnected.'))
    }
    this.over = new Promise((resolve) => {
      this.#end = () => {
        this.#isOver = true
        // Frees the content now: a dropped message stays in its queue until its turn comes.
        for (const message of this.messages) message.drop()
        timer.cancel()
        client.removeEventListener('abort', onDisconnect)
        resolve()
      }
    })
    this.messages = contents.map((content) => new MessageOfRequest(content, this.#verdicts))
    if (client.aborted) onDisconnect()
    else client.addEventListener('abort', onDisconnect, { once: true })
    if (contents.length === 0) this.#finish(handled())
  }

  /** Answers now. Idempotent. */
  dispose(): void {
    this.#lose('disposed', unavailable('The receiver is stopping.'))
  }

  // One object for all messages: a batch may have thousands.
  readonly #verdicts: Verdicts = {
    ack: () => this.#settle(),
    nack: (retryAfter) => {
      this.#refused = true
      this.#retryAfter = Math.max(this.#retryAfter, retryAfter)
      this.#settle()
    },
    release: () => {
      this.#released = true
      this.#count()
    },
  }

  #settle(): void {
    const loss = this.#loss
    if (!this.#isOver) this.#count()
    if (loss !== undefined) throw lossError(loss, this.#settleTimeout)
  }

  #count(): void {
    this.#unsettled -= 1
    if (this.#unsettled > 0) return
    if (this.#released) this.#finish(unavailable('The receiver is stopping.'))
    else this.#finish(this.#refused ? notHandled(this.#retryAfter) : handled())
  }

  #lose(loss: Loss, response: Response): void {
    if (this.#isOver) return
    this.#loss ??= loss
    this.#finish(response)
  }

  #finish(response: Response): void {
    this.#answer(response)
    this.#end()
  }
}

type Verdicts = Pick<HeldMessage, 'ack' | 'nack' | 'release'>

class MessageOfRequest implements HeldMessage {
  readonly #verdicts: Verdicts
  #content: EventContent | undefined

  constructor(content: EventContent, verdicts: Verdicts) {
    this.#content = content
    this.#verdicts = verdicts
  }

  take(): EventContent | undefined {
    const content = this.#content
    this.#content = undefined
    return content
  }

  drop(): void {
    this.#content = undefined
  }

  ack(): void {
    this.#verdicts.ack()
  }

  nack(retryAfter: number): void {
    this.#verdicts.nack(retryAfter)
  }

  release(): void {
    this.#verdicts.release()
  }
}

function lossError(loss: Loss, settleTimeout: number): AckordError {
  const again = 'its sender sends it again, and the late verdict has no effect.'
  if (loss === 'late') {
    const text = `The message was not settled within ${settleTimeout} ms, and its request was answered with 504; ${again}`
    return new AckordError('ACKORD_LEASE_LOST', text)
  }
  if (loss === 'gone') return new AckordError('ACKORD_LEASE_LOST', `The client disconnected before the message was settled; ${again}`)
  const text = `The source was disposed before the message was settled; ${again} Settle what was yielded before disposing the source.`
  return new AckordError('ACKORD_SHUTDOWN', text)
}

export interface AcceptedMessagesOptions {
  /** Passes messages to an iteration; `false` if there is none. */
  readonly deliver: (messages: readonly HeldMessage[]) => boolean
  /** Called when a message is settled or lost, and its memory is free. */
  readonly free: (bytes: number) => void
}

/**
 * Messages whose requests were answered with 202 before they were handled. Their senders do not send them again, so nacked messages are delivered again from
 * here. They are in memory only.
 */
export class AcceptedMessages {
  readonly #runtime: Runtime
  readonly #options: AcceptedMessagesOptions
  /** With the memory that is reserved for each message. */
  readonly #unsettled = new Map<HeldMessage, number>()
  readonly #timers = new Map<HeldMessage, Timer>()
  // Messages that wait for an iteration.
  #waiting: HeldMessage[] = []
  #disposed = false

  constructor(runtime: Runtime, options: AcceptedMessagesOptions) {
    this.#runtime = runtime
    this.#options = options
  }

  get size(): number {
    return this.#unsettled.size
  }

  accept(contents: readonly EventContent[]): void {
    const messages = contents.map((content) => this.#hold(content))
    this.#pass(messages)
  }

  /** Called when an iteration has begun. */
  resume(): void {
    this.#pass(this.#waiting.splice(0))
  }

  /** Returns the number of messages that are lost. */
  dispose(): number {
    this.#disposed = true
    for (const timer of this.#timers.values()) timer.cancel()
    this.#timers.clear()
    this.#waiting = []
    const lost = this.#unsettled.size
    for (const message of [...this.#unsettled.keys()]) this.#forget(message)
    return lost
  }

  #hold(content: EventContent): HeldMessage {
    const message: HeldMessage = {
      take: () => content,
      ack: () => {
        this.#checkOpen()
        this.#forget(message)
      },
      nack: (retryAfter) => {
        this.#checkOpen()
        const again = () => {
          this.#timers.delete(message)
          this.#pass([message])
        }
        this.#timers.set(message, this.#runtime.setTimeout(again, retryAfter))
      },
      release: () => {
        if (!this.#disposed) this.#pass([message])
      },
    }
    this.#unsettled.set(message, memoryOf([content]))
    return message
  }

  #forget(message: HeldMessage): void {
    const bytes = this.#unsettled.get(message)
    if (this.#unsettled.delete(message) && bytes !== undefined) this.#options.free(bytes)
  }

  #pass(messages: readonly HeldMessage[]): void {
    if (messages.length > 0 && !this.#options.deliver(messages)) for (const message of messages) this.#waiting.push(message)
  }

  #checkOpen(): void {
    if (this.#disposed)
      throw new AckordError(
        'ACKORD_SHUTDOWN',
        'The source was disposed before the message was settled. Its request was answered, so it is not sent again.',
      )
  }
}

import { AckordError, type Runtime, type Timer } from '@ackord/core'
import { handled, notHandled, notInTime, unavailable } from './answers.ts'
import type { HeldMessage } from './http-iteration.ts'
import { type EventContent, memoryOf } from './read-request.ts'

export interface OpenRequestOptions {
  readonly settleTimeout: number
  readonly runtime: Runtime
  /** Aborted when the client has gone. */
  readonly client: AbortSignal
}

/** Why a verdict reaches nobody. */
type Loss = 'late' | 'gone' | 'disposed'

/**
 * A request that waits for its messages.
 *
 *     waiting ─ all are settled ─▶ over: 200 if all are acked, else 500, or 503 if one was given back
 *             ─ settleTimeout ─▶ over: 504. What is in hand goes on, what nobody has taken is dropped: it comes again
 *             ─ the source is disposed ─▶ over: 503
 *             ─ the client goes ─▶ unanswerable: goes on as before, but verdicts are refused ─ all are settled, or settleTimeout ─▶ over
 */
export class OpenRequest {
  readonly answered: Promise<Response>
  /** Resolves when nothing of it is left here. */
  readonly over: Promise<void>
  readonly messages: readonly MessageOfRequest[]
  readonly #settleTimeout: number
  #unsettled: number
  #refused = false
  #givenBack = false
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
    const onGone = () => {
      this.#loss ??= 'gone'
      this.#answer(unavailable('The client has gone.'))
    }
    this.over = new Promise((resolve) => {
      this.#end = () => {
        this.#isOver = true
        // Not kept for longer than it is wanted: a message that is dropped stays in its queue until its turn comes.
        for (const message of this.messages) message.drop()
        timer.cancel()
        client.removeEventListener('abort', onGone)
        resolve()
      }
    })
    this.messages = contents.map((content) => new MessageOfRequest(content, this.#verdicts))
    if (client.aborted) onGone()
    else client.addEventListener('abort', onGone, { once: true })
    if (contents.length === 0) this.#finish(handled())
  }

  /** Answers now. Idempotent. */
  dispose(): void {
    this.#lose('disposed', unavailable('The receiver is stopping.'))
  }

  // One for all messages: a batch may have thousands.
  readonly #verdicts: Verdicts = {
    ack: () => this.#settle(),
    nack: (retryAfter) => {
      this.#refused = true
      this.#retryAfter = Math.max(this.#retryAfter, retryAfter)
      this.#settle()
    },
    giveBack: () => {
      this.#givenBack = true
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
    if (this.#givenBack) this.#finish(unavailable('The receiver is stopping.'))
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

type Verdicts = Pick<HeldMessage, 'ack' | 'nack' | 'giveBack'>

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

  giveBack(): void {
    this.#verdicts.giveBack()
  }
}

function lossError(loss: Loss, settleTimeout: number): AckordError {
  const again = 'its sender sends it again, and the late verdict has no effect.'
  if (loss === 'late') {
    const text = `The message was not settled within ${settleTimeout} ms, and its request was answered with 504; ${again}`
    return new AckordError('ACKORD_LEASE_LOST', text)
  }
  if (loss === 'gone') return new AckordError('ACKORD_LEASE_LOST', `The client went before the message was settled; ${again}`)
  const text = `The source was disposed before the message was settled; ${again} Settle what was yielded before disposing the source.`
  return new AckordError('ACKORD_SHUTDOWN', text)
}

export interface AcceptedMessagesOptions {
  /** Hands messages to an iteration; `false` if there is none. */
  readonly deliver: (messages: readonly HeldMessage[]) => boolean
  /** A message is settled or lost, and its memory free. */
  readonly release: (bytes: number) => void
}

/**
 * Messages whose requests were answered with 202 before they were handled. Nobody sends them again, so what is nacked is delivered again from
 * here. They are in memory only.
 */
export class AcceptedMessages {
  readonly #runtime: Runtime
  readonly #options: AcceptedMessagesOptions
  /** With the memory that is reserved for each. */
  readonly #unsettled = new Map<HeldMessage, number>()
  readonly #timers = new Map<HeldMessage, Timer>()
  // Those that no iteration is there for.
  #homeless: HeldMessage[] = []
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

  /** An iteration has begun. */
  resume(): void {
    this.#pass(this.#homeless.splice(0))
  }

  /** How many are lost with it. */
  dispose(): number {
    this.#disposed = true
    for (const timer of this.#timers.values()) timer.cancel()
    this.#timers.clear()
    this.#homeless = []
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
      giveBack: () => {
        if (!this.#disposed) this.#pass([message])
      },
    }
    this.#unsettled.set(message, memoryOf([content]))
    return message
  }

  #forget(message: HeldMessage): void {
    const bytes = this.#unsettled.get(message)
    if (this.#unsettled.delete(message) && bytes !== undefined) this.#options.release(bytes)
  }

  #pass(messages: readonly HeldMessage[]): void {
    if (messages.length > 0 && !this.#options.deliver(messages)) for (const message of messages) this.#homeless.push(message)
  }

  #checkOpen(): void {
    if (this.#disposed)
      throw new AckordError(
        'ACKORD_SHUTDOWN',
        'The source was disposed before the message was settled. It was accepted, so nobody sends it again.',
      )
  }
}

import { AckordError, type Runtime } from '@ackord/core'
import { handled, notHandled, notInTime, unavailable } from './answers.ts'
import type { HeldMessage } from './held-message.ts'
import type { EventContent } from './read-events.ts'

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
  readonly messages: readonly HeldMessage[]
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
        timer.cancel()
        client.removeEventListener('abort', onGone)
        resolve()
      }
    })
    this.messages = contents.map((content) => this.#hold(content))
    if (client.aborted) onGone()
    else client.addEventListener('abort', onGone, { once: true })
    if (contents.length === 0) this.#finish(handled())
  }

  /** Answers now. Idempotent. */
  dispose(): void {
    this.#lose('disposed', unavailable('The receiver is stopping.'))
  }

  #hold(content: EventContent): HeldMessage {
    // Not kept for longer than it is wanted: one that is dropped stays in its queue until its turn comes.
    let kept: EventContent | undefined = content
    void this.over.then(() => {
      kept = undefined
    })
    return {
      take: () => {
        const taken = this.#isOver ? undefined : kept
        kept = undefined
        return taken
      },
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

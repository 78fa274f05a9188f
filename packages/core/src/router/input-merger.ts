import { abortable, type LinkedController, linkedController } from '../async/abort.ts'
import type { Source } from '../broker/source.ts'
import { AckordError } from '../errors.ts'
import { outside } from '../message/context.ts'
import { describeMessage } from '../message/marshal.ts'
import { isMessage, type Message } from '../message/message.ts'

interface Waiting {
  readonly message: Message
  readonly taken: (taken: boolean) => void
}

/** Called for events of each input. */
export interface InputEvents {
  /** Called before a message is passed on, with its input. */
  readonly onMessage: (message: Message) => void
  readonly onFailed: (error: unknown) => void
}

/**
 * Merges several inputs into one iteration; they are added before it starts or while it runs. One message per input waits at a time, so that a fast
 * input does not crowd out the others. It ends when it is closed and all inputs have ended; an abort closes it and ends them.
 */
export class InputMerger implements AsyncIterable<Message> {
  readonly #waiting: Waiting[] = []
  readonly #pending: (() => Promise<void>)[] = []
  readonly #running = new Set<Promise<void>>()
  #signal: AbortSignal | undefined
  #closed = false
  #onChange: (() => void) | undefined

  /** Resolves when the input has ended and its last message was passed on. Never rejects. `stop` ends this input alone. */
  add(input: Source | AsyncIterable<Message>, events: InputEvents): { readonly ended: Promise<void>; stop(): void } {
    if (this.#closed) throw new AckordError('ACKORD_SHUTDOWN', 'The engine is stopping; it accepts no more inputs.')
    const own = new AbortController()
    const ended = new Promise<void>((resolve) => {
      const start = async () => {
        // Only called once the merger has its signal.
        using controller = linkedController(this.#signal as AbortSignal)
        if (own.signal.aborted) controller.abort(own.signal.reason)
        own.signal.addEventListener('abort', () => controller.abort(own.signal.reason), { once: true })
        await this.#pump(input, events, controller)
        resolve()
      }
      if (this.#signal === undefined) this.#pending.push(start)
      // Runs outside the context of a handler that adds the input.
      else this.#track(outside(start))
      own.signal.addEventListener('abort', () => {
        const index = this.#pending.indexOf(start)
        if (index === -1) return
        this.#pending.splice(index, 1)
        resolve()
      })
    })
    return { ended, stop: () => own.abort() }
  }

  /** Starts the inputs; `signal` ends them. */
  start(signal: AbortSignal): this {
    this.#signal = signal
    if (signal.aborted) this.#abort()
    else signal.addEventListener('abort', () => this.#abort(), { once: true })
    for (const start of this.#pending.splice(0)) this.#track(start())
    return this
  }

  /** Accepts no more inputs: the iteration ends with the last of the existing ones. */
  close(): void {
    this.#closed = true
    this.#onChange?.()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Message, void, void> {
    while (true) {
      const next = this.#waiting.shift()
      if (next !== undefined) {
        next.taken(true)
        yield next.message
      } else if (this.#closed && this.#running.size === 0) {
        return
      } else {
        await new Promise<void>((resolve) => {
          this.#onChange = resolve
        })
      }
    }
  }

  #abort(): void {
    this.#closed = true
    for (const { taken } of this.#waiting.splice(0)) taken(false)
    this.#onChange?.()
  }

  #track(pump: Promise<void>): void {
    this.#running.add(pump)
    void pump.finally(() => {
      this.#running.delete(pump)
      this.#onChange?.()
    })
  }

  async #pump(input: Source | AsyncIterable<Message>, events: InputEvents, controller: LinkedController): Promise<void> {
    const { signal } = controller
    try {
      if ('messages' in input) {
        for await (const message of input.messages({ signal })) if (!(await this.#passOn(message, events, signal))) break
      } else {
        await this.#pumpIterable(input, events, signal)
      }
    } catch (error) {
      if (!signal.aborted) events.onFailed(error)
    }
  }

  /** A plain iterable cannot observe a signal: it is left pending in its `next()`, and messages it still yields are nacked. */
  async #pumpIterable(input: AsyncIterable<Message>, events: InputEvents, signal: AbortSignal): Promise<void> {
    const iterator = input[Symbol.asyncIterator]()
    while (!signal.aborted) {
      const next = iterator.next()
      let result: IteratorResult<Message>
      try {
        result = await abortable(next, signal)
      } catch (error) {
        if (!signal.aborted) throw error
        next.then(({ done, value }) => (done === true || !isMessage(value) ? undefined : nackAtStop(value)), ignore)
        break
      }
      if (result.done === true) return
      if (!(await this.#passOn(result.value, events, signal))) break
    }
    void Promise.resolve(iterator.return?.()).catch(ignore)
  }

  async #passOn(message: Message, events: InputEvents, signal: AbortSignal): Promise<boolean> {
    if (!isMessage(message)) throw new TypeError('The input yielded something that is not a Message.')
    if (signal.aborted) {
      await nackAtStop(message)
      return false
    }
    events.onMessage(message)
    const taken = await new Promise<boolean>((resolve) => {
      this.#waiting.push({ message, taken: resolve })
      this.#onChange?.()
    })
    if (!taken) await nackAtStop(message)
    return taken
  }
}

/** A failure of the nack is in `settled`; the broker redelivers the message either way. */
async function nackAtStop(message: Message): Promise<void> {
  await message
    .nack(new AckordError('ACKORD_SHUTDOWN', `The engine was stopped before it handled ${describeMessage(message)}.`))
    .catch(ignore)
}

function ignore(): void {}

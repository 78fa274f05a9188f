import { createHash } from 'node:crypto'
import { AckordError, type Context, InvalidOptionError, Message } from '@ackord/core'
import { checkDuration, checkName, describeValue, isMessage, outputDestinationKey, setDue, withData } from '@ackord/core/internal'
import { describeProcess } from './process-checks.ts'
import type { ProcessKey } from './process-store.ts'

export interface ProcessSendOptions {
  /** Milliseconds before the message may be published, by the store's clock. Default: the delay of the event, or none. */
  readonly delay?: number | undefined
  /** Where it is published. Default: the destination of the outbox. */
  readonly destination?: string | undefined
}

/** What a step does besides changing the state. Everything commits with the state, the inbox record of the message, and what its adapters write; or nothing does. */
export interface ProcessStep {
  /** The id of the instance. */
  readonly id: string
  /** Whether this message begins the instance. */
  readonly isNew: boolean
  /** The context of the message, with its transaction: for the repositories of a step. */
  readonly context: Context
  /** Sends an event or a command, created with `defineEvent()`, through the outbox. Its id is the same whenever the message is handled again. */
  send(message: Message, options?: ProcessSendOptions): void
  /**
   * Calls the step of this name in `timeouts` after so many milliseconds, unless the timeout is cancelled, set again, or the instance has completed until then.
   * Setting it again replaces it.
   */
  timeout(name: string, delay: number): void
  /** The timeout is ignored when it is due. Has no effect if it is not set. */
  cancelTimeout(name: string): void
  /** The instance has finished. All its timeouts are cancelled, and further events are ignored. */
  complete(): void
}

/** The data of the message that a timeout is. */
export interface ProcessTimeout {
  readonly id: string
  readonly timeout: string
  /** Tells this timeout from one that was set before or after it under the same name. */
  readonly token: string
}

interface StepOptions {
  readonly key: ProcessKey
  readonly message: Message
  readonly context: Context
  readonly isNew: boolean
  /** The version of the instance that the step makes. */
  readonly version: number
  readonly timeouts: Readonly<Record<string, string>>
  /** The names that the definition has. */
  readonly knownTimeouts: ReadonlySet<string>
  /** Where timeouts are published. Present if there are any. */
  readonly destination: string | undefined
}

/** Collects what a step does. */
export class StepRecorder implements ProcessStep {
  readonly id: string
  readonly isNew: boolean
  readonly context: Context
  readonly #options: StepOptions
  readonly #sent: Message[] = []
  readonly #set = new Map<string, Message>()
  readonly #tokens: Map<string, string>
  #completed = false
  #ended = false

  constructor(options: StepOptions) {
    this.id = options.key.id
    this.isNew = options.isNew
    this.context = options.context
    this.#options = options
    this.#tokens = new Map(Object.entries(options.timeouts))
  }

  get completed(): boolean {
    return this.#completed
  }

  /** The tokens of the timeouts that are set after the step. */
  get timeouts(): Readonly<Record<string, string>> {
    return this.#completed ? {} : Object.fromEntries(this.#tokens)
  }

  /** What the step sends, and then its timeouts. */
  get outputs(): readonly Message[] {
    return [...this.#sent, ...this.#set.values()]
  }

  send(message: Message, options: ProcessSendOptions = {}): void {
    this.#checkOpen()
    if (!isMessage(message)) {
      const problem = `must be a message created by defineEvent(); it is ${describeValue(message)}.`
      throw new InvalidOptionError('The argument of send()', problem)
    }
    const { delay, destination } = options
    const copy = withData(message, message.data, message.attributes)
    if (delay !== undefined) setDue(copy, { delay: checkDuration('delay', delay) })
    this.#sent.push(destination === undefined ? copy : copy.withValue(outputDestinationKey, checkName('destination', destination)))
  }

  timeout(name: string, delay: number): void {
    this.#checkOpen()
    const { key, message, version, knownTimeouts, destination } = this.#options
    if (!knownTimeouts.has(name) || destination === undefined) {
      throw new InvalidOptionError(
        'timeout()',
        `was called with '${name}', which is not one of the timeouts of the process '${key.process}'.`,
      )
    }
    checkDuration('delay', delay)
    // The same for every attempt, and different from that of every other message and instance.
    const token = createHash('sha256')
      .update(JSON.stringify([message.source, message.id, key.process, key.id, name, version]))
      .digest('base64url')
      .slice(0, 22)
    const data: ProcessTimeout = { id: key.id, timeout: name, token }
    const timeout = new Message(data, { type: timeoutType(key.process), subject: key.id })
    setDue(timeout, { delay })
    this.#set.set(name, timeout.withValue(outputDestinationKey, destination))
    this.#tokens.set(name, token)
  }

  cancelTimeout(name: string): void {
    this.#checkOpen()
    this.#set.delete(name)
    this.#tokens.delete(name)
  }

  complete(): void {
    this.#checkOpen()
    this.#completed = true
  }

  /** Refuses everything from now on. A step that completes the instance and also waits for a timeout contradicts itself. */
  end(): void {
    this.#ended = true
    const [name] = this.#set.keys()
    if (!this.#completed || name === undefined) return
    throw new AckordError(
      'ACKORD_INVALID_OUTPUT',
      `A step of ${describeProcess(this.#options.key)} has set the timeout '${name}' and called complete(). A finished process ignores its timeouts: remove one of the calls.`,
    )
  }

  #checkOpen(): void {
    if (!this.#ended) return
    throw new AckordError(
      'ACKORD_SCOPE_ENDED',
      `A step of ${describeProcess(this.#options.key)} was used after it had ended. Await everything before the step returns.`,
    )
  }
}

/** The type of the messages that the timeouts of a process are. */
export function timeoutType(process: string): string {
  return `${process}.timeout`
}

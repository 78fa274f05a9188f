import { answerTimeout, type LinkedController, linkedController, settledWithin } from '../async/abort.ts'
import { AckordError } from '../errors.ts'
import { outside } from '../message/context.ts'
import type { RawMessage } from '../message/message.ts'
import { checkDuration, checkName } from '../options.ts'
import type { Part, SharedPorts } from '../ports/part-ports.ts'
import { redactDestination } from '../ports/redact.ts'
import { type Runtime, systemRuntime } from '../ports/runtime.ts'
import { abortedFailure, destinationFailure, unroutedFailure, unwritableFailure, wrongDataFailure } from './publish-failures.ts'
import type { Publisher, PublishFailure, PublishResult } from './publisher.ts'
import type { BrokerAddress, Closable } from './source.ts'

/** A message to be sent. Its result must be reported once; further results are ignored. */
export interface Outgoing<Item> {
  /** The result of {@link PublisherDriver.write}. */
  readonly item: Item
  settle(result: PublishResult): void
}

/** One call of `publish()`, for {@link PublisherDriver.send}. */
export interface SendOptions {
  readonly destination: string
  /** Aborted with the caller's signal, and when the publisher is closed and `closeTimeout` is over. */
  readonly signal: AbortSignal
}

/**
 * The broker-specific half of a publisher. A driver that logs inherits the logger of the relay or the router by `inheritPorts()`. `system`, `serverAddress` and
 * `serverPort` become those of the publisher.
 */
export interface PublisherDriver<Item, Route = string> extends Part, BrokerAddress {
  /** Names the broker in error messages, such as 'RabbitMQ'. */
  readonly broker: string
  /** A noun for the result of `route`, in error messages. Default: 'route'. */
  readonly routeName?: string | undefined
  /** Where a message to this destination goes, such as a topic. An error fails this message, and a relay tries it again. */
  route(destination: string, message: RawMessage): Route | PublishFailure
  /** The message in the broker's format. An error fails the message for good. */
  write(message: RawMessage, route: Route): Item | PublishFailure
  /**
   * Sends the messages of one call, in this order, and settles each, maybe after the returned promise has resolved. If it rejects, the messages that are not
   * settled fail, and the destination is at fault. After an abort nothing more is sent; the messages are settled already.
   */
  send(messages: readonly Outgoing<Item>[], options: SendOptions): void | Promise<void>
  /** Closes what the publisher has opened. Called once, when no call is in flight. It must not wait for ever. */
  close?(): Promise<void>
  /** Milliseconds that closing waits for the calls in flight before it aborts them. Default: 5,000. `Infinity`: until they have ended. */
  readonly closeTimeout?: number | undefined
  readonly runtime?: Runtime | undefined
}

/**
 * A publisher for a broker. It checks destinations and data, runs routing and writing of each message so that one message cannot fail another, returns one
 * result per message in their order, obeys the caller's signal whatever the driver does, and waits for the calls in flight when it is closed.
 */
export function createPublisher<Item, Route = string>(driver: PublisherDriver<Item, Route>): Publisher & Closable {
  checkName('broker', driver.broker)
  if (driver.closeTimeout !== undefined) checkDuration('closeTimeout', driver.closeTimeout, { infinite: true })
  return new DrivenPublisher(driver)
}

class DrivenPublisher<Item, Route> implements Publisher, Closable {
  readonly #driver: PublisherDriver<Item, Route>
  readonly #calls = new Set<PublishCall>()
  #closing: Promise<void> | undefined

  constructor(driver: PublisherDriver<Item, Route>) {
    this.#driver = driver
  }

  get system(): string | undefined {
    return this.#driver.system
  }

  get serverAddress(): string | undefined {
    return this.#driver.serverAddress
  }

  get serverPort(): number | undefined {
    return this.#driver.serverPort
  }

  async publish(
    destination: string,
    messages: readonly RawMessage[],
    options: { readonly signal: AbortSignal },
  ): Promise<readonly PublishResult[]> {
    if (this.#closing !== undefined) throw this.#closedError()
    checkName('destination', destination)
    options.signal.throwIfAborted()
    const call = new PublishCall(this.#driver.broker, messages.length, options.signal)
    this.#calls.add(call)
    // A connection that this call opens is used by later calls too, so it must not keep the context of this one.
    outside(() => this.#begin(call, destination, messages))
    try {
      return await call.ended
    } finally {
      this.#calls.delete(call)
      call[Symbol.dispose]()
    }
  }

  inheritPorts(ports: SharedPorts): void {
    this.#driver.inheritPorts?.(ports)
  }

  close(): Promise<void> {
    this.#closing ??= this.#closeOnce()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #begin(call: PublishCall, destination: string, messages: readonly RawMessage[]): void {
    const outgoing: Outgoing<Item>[] = []
    for (const [index, message] of messages.entries()) {
      const prepared = this.#prepare(destination, message)
      if (isFailure(prepared)) call.settle(index, prepared)
      else outgoing.push(new CallMessage(prepared, call, index))
    }
    if (outgoing.length > 0) void this.#send(outgoing, { destination, signal: call.signal })
  }

  #prepare(destination: string, message: RawMessage): Item | PublishFailure {
    const { broker, routeName = 'route' } = this.#driver
    if (!(message.data instanceof Uint8Array)) return wrongDataFailure(broker, destination, message.data)
    let route: Route | PublishFailure
    try {
      route = this.#driver.route(destination, message)
    } catch (cause) {
      return unroutedFailure(routeName, destination, cause)
    }
    if (isFailure(route)) return route
    try {
      return this.#driver.write(message, route)
    } catch (cause) {
      return unwritableFailure(broker, `'${redactDestination(destination)}'`, cause)
    }
  }

  /** Never rejects. */
  async #send(outgoing: readonly Outgoing<Item>[], options: SendOptions): Promise<void> {
    try {
      await this.#driver.send(outgoing, options)
    } catch (cause) {
      const text = `A message to '${redactDestination(options.destination)}' was not confirmed by ${this.#driver.broker}; the cause says why.`
      const failure = destinationFailure(text, cause)
      for (const message of outgoing) message.settle(failure)
    }
  }

  async #closeOnce(): Promise<void> {
    const { closeTimeout = answerTimeout, runtime = systemRuntime } = this.#driver
    const calls = Promise.all(Array.from(this.#calls, (call) => call.ended))
    if (closeTimeout === Number.POSITIVE_INFINITY) await calls
    else await settledWithin(runtime, closeTimeout, calls)
    for (const call of this.#calls) call.abort(this.#closedError())
    await this.#driver.close?.()
  }

  #closedError(): AckordError {
    return new AckordError('ACKORD_SHUTDOWN', `The ${this.#driver.broker} publisher is closed.`)
  }
}

/** One call of `publish()`: it ends when every message has its result. One promise for all of them, because most calls carry a batch. */
class PublishCall implements Disposable {
  /** Never rejects. */
  readonly ended: Promise<readonly PublishResult[]>
  readonly #results: PublishResult[]
  readonly #controller: LinkedController
  #unsettled: number
  #end: (results: readonly PublishResult[]) => void = () => {}

  constructor(broker: string, count: number, signal: AbortSignal) {
    this.#results = new Array<PublishResult>(count)
    this.#unsettled = count
    this.#controller = linkedController(signal)
    this.ended = new Promise((resolve) => {
      this.#end = resolve
    })
    if (count === 0) this.#end([])
    this.signal.addEventListener('abort', () => this.#settleRest(abortedFailure(broker, this.signal.reason)), { once: true })
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** The first result of a message counts. */
  settle(index: number, result: PublishResult): void {
    if (this.#results[index] !== undefined) return
    this.#results[index] = result
    this.#unsettled -= 1
    if (this.#unsettled === 0) this.#end(this.#results)
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason)
  }

  [Symbol.dispose](): void {
    this.#controller[Symbol.dispose]()
  }

  #settleRest(failure: PublishFailure): void {
    for (let index = 0; index < this.#results.length; index += 1) this.settle(index, failure)
  }
}

class CallMessage<Item> implements Outgoing<Item> {
  readonly item: Item
  readonly #call: PublishCall
  readonly #index: number

  constructor(item: Item, call: PublishCall, index: number) {
    this.item = item
    this.#call = call
    this.#index = index
  }

  settle(result: PublishResult): void {
    this.#call.settle(this.#index, result)
  }
}

function isFailure(value: unknown): value is PublishFailure {
  return typeof value === 'object' && value !== null && 'ok' in value && value.ok === false
}

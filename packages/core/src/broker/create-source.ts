import { abortable } from '../async/abort.ts'
import type { RawMessage } from '../message/message.ts'
import type { Part } from '../ports/part-ports.ts'
import { IteratedSource, type IterationOwner, type SourceIteration } from './iterated-source.ts'
import { PushedMessages } from './pushed-messages.ts'
import { type Connection, type ReconnectOptions, reconnect } from './reconnect.ts'
import type { BrokerAddress, Closable, Source } from './source.ts'

/**
 * A connection to the broker, from which messages come until it is lost or left.
 *
 *     open ─ leave() ─▶ leaving: no more messages come, those that were handed out can be settled ─ all are settled ─▶ closed
 *     open, leaving ─ the connection is lost, or close() ─▶ closed: the broker delivers again what is not settled
 */
export interface SourceSession extends Connection {
  /** Resolves when no message of the session can be settled any more. */
  readonly closed: Promise<void>
  /** Begins to receive. Rejects if that is not possible, or if the session was left before; it is closed then. */
  start(): Promise<void>
  /** Receives no more, and returns to the broker what was not handed out. Closes when the last message is settled. Idempotent, never rejects. */
  leave(): Promise<void>
  /** Returns everything that is not settled to the broker. Settling it rejects from now on. Idempotent, never rejects. */
  close(): Promise<void>
}

/** The broker-specific half of a source. A driver belongs to one iteration. `system`, `serverAddress` and `serverPort` become those of the source. */
export interface SourceDriver<Item> extends ReconnectOptions, BrokerAddress {
  /** Creates a session, which passes what it receives to `push`. Rejects if the broker cannot be reached; an abort need not be obeyed. */
  open(push: (item: Item) => void, signal: AbortSignal): SourceSession | Promise<SourceSession>
  /** The message of an item whose turn has come; `undefined` if its session is closed, or if the message cannot be read and was rejected. Must not throw. */
  messageOf(item: Item): RawMessage | undefined
  /** Called when a session has started. */
  started?(): void
  /** Called once, when the iteration has ended and all of its sessions are closed. Must not reject. */
  finish?(): Promise<void>
}

/**
 * A source for a broker. It opens a session for each iteration, opens another one when it is lost, and closes them when the last message is settled. `part` is its receiver, or the
 * `PartPorts` whose logger it uses: it inherits the logger of the router.
 */
export function createSource<Item>(createDriver: () => SourceDriver<Item>, part: Part): Source & Closable {
  const drivers = new Drivers(createDriver)
  return new IteratedSource((signal, owner) => new SessionIteration(drivers.take(), signal, owner), part, drivers)
}

/** The drivers of a source. Its address is that of the latest driver: all of them use the same client. */
class Drivers<Item> implements BrokerAddress {
  readonly #create: () => SourceDriver<Item>
  #latest: SourceDriver<Item> | undefined
  /** Whether the latest driver was created for its address, and waits for an iteration. */
  #isFree = false

  constructor(create: () => SourceDriver<Item>) {
    this.#create = create
  }

  get system(): string | undefined {
    return this.#current().system
  }

  get serverAddress(): string | undefined {
    return this.#current().serverAddress
  }

  get serverPort(): number | undefined {
    return this.#current().serverPort
  }

  /** The driver of a new iteration. */
  take(): SourceDriver<Item> {
    const driver = this.#isFree ? this.#current() : this.#create()
    this.#isFree = false
    this.#latest = driver
    return driver
  }

  #current(): SourceDriver<Item> {
    if (this.#latest === undefined) {
      this.#latest = this.#create()
      this.#isFree = true
    }
    return this.#latest
  }
}

class SessionIteration<Item> implements SourceIteration {
  readonly messages: PushedMessages<Item>
  readonly #driver: SourceDriver<Item>
  readonly #owner: IterationOwner
  // The one that receives, and earlier ones with messages that are not settled.
  readonly #sessions = new Set<SourceSession>()
  #finishing: Promise<void> | undefined

  constructor(driver: SourceDriver<Item>, signal: AbortSignal, owner: IterationOwner) {
    this.#driver = driver
    this.#owner = owner
    this.messages = new PushedMessages<Item>(
      {
        start: () => this.#start(),
        messageOf: (item) => driver.messageOf(item),
        leave: () => this.#leave(),
        isDisposed: () => owner.disposed,
      },
      signal,
    )
  }

  async dispose(): Promise<void> {
    const left = this.messages.end()
    await Promise.all([...this.#sessions].map((session) => session.close()))
    await left
    await this.#finish()
  }

  #start(): void {
    this.#owner.started(this)
    reconnect(() => this.#open(), this.#driver, this.messages.ending).catch((error: unknown) => this.messages.fail(error))
  }

  async #open(): Promise<Connection> {
    const signal = this.messages.ending
    const session = await this.#driver.open((item) => this.messages.push(item), signal)
    this.#sessions.add(session)
    void session.closed.then(() => {
      this.#sessions.delete(session)
      this.#finishIfDone()
    })
    // The iteration was left while the session was being created.
    if (signal.aborted) await session.leave()
    await abortable(session.start(), signal)
    this.#driver.started?.()
    void session.ended.then(() => session.leave())
    return session
  }

  async #leave(): Promise<void> {
    // A session with nothing to be settled is closed before this resolves, so that another consumer gets its messages.
    await Promise.all([...this.#sessions].map((session) => session.leave()))
    this.#finishIfDone()
  }

  #finishIfDone(): void {
    if (!this.messages.ending.aborted || this.#sessions.size > 0) return
    void this.#finish()
    this.#owner.finished(this)
  }

  #finish(): Promise<void> {
    this.#finishing ??= this.#driver.finish?.() ?? Promise.resolve()
    return this.#finishing
  }
}

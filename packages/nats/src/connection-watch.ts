import { InvalidOptionError } from '@ackord/core'
import { checkFunction } from '@ackord/core/internal'
import type { NatsConnection } from './client.ts'

const watches = new WeakMap<NatsConnection, ConnectionWatch>()

/** Whether a connection is up. The client reconnects by itself, but does not fail the requests that wait for an answer meanwhile. */
export class ConnectionWatch {
  readonly #connection: NatsConnection
  readonly #listeners = new Set<() => void>()
  #up: boolean
  #over: { readonly cause: unknown } | undefined

  private constructor(connection: NatsConnection) {
    this.#connection = connection
    this.#up = connection.info !== undefined
    if (connection.isClosed()) {
      this.#end(undefined)
      return
    }
    void this.#follow()
    connection.closed().then(
      (cause) => this.#end(cause),
      (cause: unknown) => this.#end(cause),
    )
  }

  /** One watch per connection, shared by its sources and publishers. */
  static of(connection: NatsConnection): ConnectionWatch {
    if (typeof connection !== 'object' || connection === null) {
      throw new InvalidOptionError('connection', "must be a connection, as connect() of '@nats-io/transport-node' returns it.")
    }
    for (const method of ['publish', 'request', 'subscribe', 'flush', 'status', 'isClosed', 'closed'] as const) {
      checkFunction(`connection.${method}`, connection[method])
    }
    let watch = watches.get(connection)
    if (watch === undefined) {
      watch = new ConnectionWatch(connection)
      watches.set(connection, watch)
    }
    return watch
  }

  get isUp(): boolean {
    return this.#up
  }

  /** Set when the connection is closed for good, with the client's reason if there is one. */
  get over(): { readonly cause: unknown } | undefined {
    return this.#over
  }

  /** Calls the listener at each change. The returned function removes it. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Resolves when the connection is up or closed for good, or when the signal is aborted. */
  async settled(signal: AbortSignal): Promise<void> {
    if (this.#up || this.#over !== undefined || signal.aborted) return
    await new Promise<void>((resolve) => {
      const check = () => {
        if (!this.#up && this.#over === undefined && !signal.aborted) return
        unwatch()
        signal.removeEventListener('abort', check)
        resolve()
      }
      const unwatch = this.onChange(check)
      signal.addEventListener('abort', check, { once: true })
    })
  }

  async #follow(): Promise<void> {
    for await (const { type } of this.#connection.status()) {
      if (type === 'disconnect') this.#change(false)
      else if (type === 'reconnect') this.#change(true)
    }
  }

  #end(cause: unknown): void {
    this.#over ??= { cause }
    this.#change(false)
  }

  #change(up: boolean): void {
    this.#up = up
    for (const listener of [...this.#listeners]) listener()
  }
}

import { InvalidOptionError } from '@ackord/core'
import { checkFunction } from '@ackord/core/internal'
import type { NatsConnection } from './client.ts'

const watches = new WeakMap<NatsConnection, ConnectionWatch>()

/** Whether a connection is up. The client heals by itself, and says nothing to those who wait for an answer meanwhile. */
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

  /** One for each connection, however many use it. */
  static of(connection: NatsConnection): ConnectionWatch {
    if (typeof connection !== 'object' || connection === null) {
      throw new InvalidOptionError('connection', "must be what connect() of '@nats-io/transport-node' resolves to.")
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

  /** There once it is closed and will not come back, with the client's reason if it had one. */
  get over(): { readonly cause: unknown } | undefined {
    return this.#over
  }

  /** Called at each change, until the function that it returns is. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Resolves when it is up or over, or the signal is aborted. */
  async settled(signal: AbortSignal): Promise<void> {
    if (this.#up || this.#over !== undefined || signal.aborted) return
    await new Promise<void>((resolve) => {
      const look = () => {
        if (!this.#up && this.#over === undefined && !signal.aborted) return
        forget()
        signal.removeEventListener('abort', look)
        resolve()
      }
      const forget = this.onChange(look)
      signal.addEventListener('abort', look, { once: true })
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

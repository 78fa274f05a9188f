import type { RawMessage } from '../message/message.ts'
import type { Part } from '../ports/part-ports.ts'

/** Which broker a source or a publisher is connected to, for telemetry. Read at each use: a connection may change its server. */
export interface BrokerAddress {
  /** The name of the system, as OpenTelemetry knows it: `rabbitmq`, `kafka`, `nats`, `redis`. Default: unknown. */
  readonly system?: string | undefined
  /** A host name, or the address of a host. Default: unknown. */
  readonly serverAddress?: string | undefined
  readonly serverPort?: number | undefined
}

/** Delivers messages to a router. The router passes its logger on by `inheritPorts()`, if there is one, before it reads the first message. */
export interface Source extends Part, BrokerAddress {
  /**
   * Messages are pulled; each iteration is single use. An abort ends the iteration without an error. Leaving the loop, by `break`, `throw` or abort,
   * returns messages to the broker that were received and not yet yielded; yielded messages can still be settled.
   * A source that cannot continue throws; after a failure that can pass, such as a lost connection, it reconnects and goes on.
   */
  messages(options: { readonly signal: AbortSignal }): AsyncIterable<RawMessage>
  /** Returns unsettled messages to the broker, and closes the connections that the source has opened itself. Stop the router first. Idempotent. */
  close?(): Promise<void>
  /** The same as `close()`, for `await using`. */
  [Symbol.asyncDispose]?(): Promise<void>
}

/** A source or a publisher that can be closed, by `close()` or `await using`. Both do the same, and are idempotent. */
export interface Closable extends AsyncDisposable {
  close(): Promise<void>
}

import type { MsgHdrs } from '@nats-io/transport-node'

/** What is used of a connection that `connect()` of `@nats-io/transport-node` 3 makes. It is passed in. */
export interface NatsConnection {
  publish(subject: string, data: Uint8Array, options?: { reply?: string }): void
  request(subject: string, data: Uint8Array, options: { timeout: number; headers?: MsgHdrs }): Promise<NatsMessage>
  subscribe(subject: string, options: { callback: (error: Error | null, message: NatsMessage) => void }): NatsSubscription
  flush(): Promise<void>
  /** Tells of lost and renewed connections, among other things. */
  status(): AsyncIterable<{ readonly type: string }>
  isClosed(): boolean
  closed(): Promise<unknown>
  /** There while it is connected. */
  readonly info?: { readonly max_payload: number } | undefined
}

export interface NatsSubscription {
  /** Resolves when all that the server had sent has been delivered. */
  drain(): Promise<void>
}

/** The client's own headers, as far as they are read. */
export interface NatsHeaders {
  readonly code: number
  readonly description: string
  get(name: string): string
  keys(): string[]
}

/** A message as the client delivers it. */
export interface NatsMessage {
  readonly subject: string
  readonly data: Uint8Array
  readonly headers?: NatsHeaders | undefined
  /** Of a message out of a stream: where verdicts go. */
  readonly reply?: string | undefined
}

/** The client's error that this one is, or was caused by. By its name: an application may have two copies of the client. */
function hasName(error: unknown, name: string): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) if (cause.name === name) return true
  return false
}

/** Nobody listens to the subject: no stream has it, or JetStream is not there. */
export function isNoResponders(error: unknown): boolean {
  return hasName(error, 'NoResponders') || hasName(error, 'NoRespondersError')
}

export function isNotAllowed(error: unknown): boolean {
  return hasName(error, 'PermissionViolationError') || hasName(error, 'AuthorizationError')
}

/** The client counts the bytes itself. */
export function isTooLarge(error: unknown): boolean {
  return error instanceof Error && error.message.includes('max_payload')
}

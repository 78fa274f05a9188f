/** The part of rhea 3 that is used. Its connection is passed in; rhea itself is not imported. */
export interface AmqpConnection {
  readonly container: AmqpContainer
  /** The broker's description of itself. Undefined until it has answered. */
  readonly properties?: Readonly<Record<string, unknown>> | undefined
  create_session(bufferSize?: { readonly incoming?: number; readonly outgoing?: number }): AmqpSession
  is_open(): boolean
  is_closed(): boolean
  on(event: AmqpConnectionEvent, listener: (context: AmqpContext) => void): unknown
  listenerCount(event: AmqpConnectionEvent): number
}

export type AmqpConnectionEvent = 'connection_open' | 'connection_close' | 'connection_error' | 'protocol_error' | 'disconnected' | 'error'

/** rhea's encoder, which a connection refers to. */
export interface AmqpContainer {
  readonly message: {
    encode(message: AmqpProperties): Buffer
    data_section(data: Uint8Array): unknown
    // rhea's type declarations omit these.
    accepted?(): AmqpOutcome
    released?(): AmqpOutcome
    rejected?(fields: { readonly error?: { readonly condition: string; readonly description: string } }): AmqpOutcome
    modified?(fields: AmqpModification): AmqpOutcome
  }
  readonly types: {
    wrap_long(value: number): unknown
    wrap_double(value: number): unknown
    wrap_timestamp(value: number): unknown
  }
  emit(event: string, context: AmqpContext): unknown
}

/** The outcome that a receiver reports for a delivery: accepted, released, modified or rejected. */
export interface AmqpOutcome {
  described(): unknown
}

export interface AmqpModification {
  readonly delivery_failed: boolean
  readonly undeliverable_here: boolean
  readonly message_annotations?: Readonly<Record<string, unknown>>
}

export interface AmqpSession {
  readonly error?: unknown
  begin(): void
  close(): void
  remove(): void
  open_sender(options: AmqpSenderOptions): AmqpSender
  open_receiver(options: AmqpReceiverOptions): AmqpReceiver
  on(event: 'session_error' | 'session_close', listener: (context: AmqpContext) => void): unknown
}

export interface AmqpLink {
  readonly error?: unknown
  /** The source that the broker has attached. */
  readonly source?: unknown
  readonly target?: unknown
  readonly rcv_settle_mode?: number | undefined
  has_credit(): boolean
  close(): void
  on(event: string, listener: (context: AmqpContext) => void): unknown
}

export interface AmqpSender extends AmqpLink {
  readonly max_message_size?: unknown
  /** Undocumented: without it, one message is sent at a time. */
  readonly credit?: number
  sendable(): boolean
  /** An encoded message, in format 0. */
  send(payload: Buffer, tag: undefined, format: 0): AmqpDelivery
}

export interface AmqpReceiver extends AmqpLink {
  /** The broker's answer to the attach. */
  readonly remote?: { readonly attach?: { readonly initial_delivery_count?: number | undefined } | undefined } | undefined
  /** How many messages have come, as rhea says so to the broker with the credit. Undocumented. */
  delivery_count?: number
  add_credit(credit: number): void
  drain_credit(): void
}

export interface AmqpSenderOptions {
  readonly target: { readonly address: string }
  readonly snd_settle_mode: 0
}

export interface AmqpReceiverOptions {
  readonly source: { readonly address: string; readonly filter?: Readonly<Record<string, unknown>> }
  readonly snd_settle_mode: 0
  readonly rcv_settle_mode: 0 | 1
  readonly autoaccept: false
  readonly credit_window: 0
}

export interface AmqpDelivery {
  readonly id: number
  /** The outcome, as the broker has answered it. */
  readonly remote_state?: unknown
  update(settled: boolean, state?: unknown): void
}

/** The argument that rhea passes to listeners. */
export interface AmqpContext {
  readonly error?: unknown
  /** Whether rhea connects again by itself. */
  readonly reconnecting?: boolean | undefined
  readonly delivery?: unknown
  readonly message?: unknown
}

/** The properties and sections that a publisher sets. Missing ones are not sent. */
export interface AmqpProperties {
  readonly body: unknown
  readonly durable: boolean
  readonly application_properties: Readonly<Record<string, unknown>>
  readonly message_id?: string
  readonly subject?: string
  readonly correlation_id?: string
  readonly content_type?: string
  readonly creation_time?: Date
  readonly group_id?: string
}

/** A message as rhea decodes it. What a sender may omit may be missing or of any type. */
export interface AmqpMessage {
  readonly body?: unknown
  readonly application_properties?: Readonly<Record<string, unknown>> | undefined
  readonly message_annotations?: Readonly<Record<string, unknown>> | undefined
  readonly message_id?: unknown
  readonly subject?: unknown
  readonly correlation_id?: unknown
  readonly content_type?: unknown
  readonly creation_time?: unknown
  readonly group_id?: unknown
  /** How often the message was delivered before, and failed. */
  readonly delivery_count?: unknown
  readonly first_acquirer?: unknown
}

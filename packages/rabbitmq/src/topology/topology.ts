export interface RabbitmqExchangeOptions {
  /** Default: 'topic'. */
  readonly type?: 'direct' | 'fanout' | 'headers' | 'topic' | undefined
  /** Whether the exchange survives a restart of RabbitMQ. Default: true. */
  readonly durable?: boolean | undefined
  /** Further arguments, such as `alternate-exchange`. Default: none. */
  readonly arguments?: Readonly<Record<string, unknown>> | undefined
}

export interface RabbitmqQueueOptions {
  /**
   * `quorum` queues are replicated, survive the loss of a node and count deliveries; `classic` queues are on one node and do not count.
   * Default: 'quorum'.
   */
  readonly type?: 'quorum' | 'classic' | undefined
  /** Whether the queue survives a restart of RabbitMQ; a quorum queue always does. Default: true. */
  readonly durable?: boolean | undefined
  /**
   * Further arguments, such as `x-max-length` or `x-single-active-consumer`. Default: none; for a quorum queue on RabbitMQ 4 and newer `x-delivery-limit` is -1, or it
   * would drop messages that were delivered twenty times.
   */
  readonly arguments?: Readonly<Record<string, unknown>> | undefined
}

export interface RabbitmqTopologyQueue extends RabbitmqQueueOptions {
  /**
   * Also creates the retry queues in which nacked messages of a source wait: the exchange `<queue>.ackord.retry`, bound to the queue, and four queues
   * whose names begin with that. Sources create them when they first need them, if the user is allowed to. Default: false.
   */
  readonly retry?: boolean | undefined
}

export interface RabbitmqBinding {
  readonly exchange: string
  readonly queue: string
  /** Default: '', which is enough for a `fanout` or `headers` exchange. */
  readonly routingKey?: string | undefined
  /** For `headers` exchanges. Default: none. */
  readonly arguments?: Readonly<Record<string, unknown>> | undefined
}

/** Exchanges and queues by name, and bindings. */
export interface RabbitmqTopology {
  readonly exchanges?: Readonly<Record<string, RabbitmqExchangeOptions>> | undefined
  readonly queues?: Readonly<Record<string, RabbitmqTopologyQueue>> | undefined
  readonly bindings?: readonly RabbitmqBinding[] | undefined
}

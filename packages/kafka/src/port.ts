/** A way to Kafka, made of a client by `fromKafkaJs`. The package knows no client but by this. */
export interface KafkaPort {
  /** Nothing is opened yet. */
  producer(): KafkaProducer
  /** A member of the group, on a connection of its own. Nothing is opened yet; it can be used once. */
  consumer(options: KafkaConsumerOptions, events: KafkaConsumerEvents): KafkaConsumer
  /** What an error of this client is about. */
  faultOf(error: unknown): KafkaFault
}

/** `message`: it is too large, or the broker takes no such record. `access`: not allowed, or not logged in. `topic`: there is none. `other`: anything else, most of it passes. */
export type KafkaFault = 'message' | 'access' | 'topic' | 'other'

export interface KafkaRecord {
  /** Records with the same key go to the same partition, in their order. */
  readonly key: Buffer | null
  readonly value: Buffer
  readonly headers: Readonly<Record<string, string>>
}

export interface KafkaProducer {
  /** Idempotent. */
  connect(): Promise<void>
  /** Resolves when all in-sync replicas have all of them. Rejects for all together: some may be there. */
  send(topic: string, records: readonly KafkaRecord[]): Promise<void>
  close(): Promise<void>
}

export interface KafkaPartition {
  readonly topic: string
  readonly partition: number
}

/** A record as it was fetched. */
export interface KafkaMessage extends KafkaPartition {
  readonly offset: string
  /** Milliseconds since the epoch, as text. */
  readonly timestamp: string
  readonly key: Buffer | null
  /** `null` is a tombstone: what the key stood for is gone. */
  readonly value: Buffer | null
  readonly headers: Readonly<Record<string, Buffer | string | readonly (Buffer | string)[] | undefined>>
}

export interface KafkaConsumerOptions {
  readonly group: string
  readonly topics: readonly string[]
  /** Where a group starts that has committed nothing. */
  readonly from: 'oldest' | 'newest'
}

/** Called by the consumer. None of them may throw. */
export interface KafkaConsumerEvents {
  /** The group has been divided anew. `member` changes if this consumer had been given up by the group in between: then all that it had was others' meanwhile. */
  assigned(partitions: readonly KafkaPartition[], member: string): void
  /** The group is about to be divided anew. */
  revoking(): void
  /** The group knows this consumer and is not being divided: what it had is still its own. */
  confirmed(): void
  /** How many of the messages, from the first on, were taken. The others are fetched again. */
  fetched(partition: KafkaPartition, messages: readonly KafkaMessage[]): number
  /** It has ended by itself. */
  crashed(error: unknown): void
}

export interface KafkaConsumer {
  /** Resolves when it was asked to join the group; rejects if that is not possible. */
  start(): Promise<void>
  /** The offsets of the next messages to be read. */
  commit(offsets: readonly (KafkaPartition & { readonly offset: string })[]): Promise<void>
  pause(partition: KafkaPartition): void
  resume(partition: KafkaPartition): void
  /** Leaves the group. */
  close(): Promise<void>
}

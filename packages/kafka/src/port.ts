/** A Kafka client, adapted by `fromKafkaJs`. The package uses clients only through this interface. */
export interface KafkaPort {
  /** Creates a producer, without connecting it. */
  producer(): KafkaProducer
  /** Creates a member of the group with a connection of its own, without connecting it. It can be started once. */
  consumer(options: KafkaConsumerOptions, events: KafkaConsumerEvents): KafkaConsumer
  /** Classifies an error of this client. */
  faultOf(error: unknown): KafkaFault
  /** The broker that has answered last, as `host:port`. For telemetry. Default: unknown. */
  readonly broker?: string | undefined
}

/** `message`: it is too large, or the broker does not accept records of its form. `access`: not allowed, or not logged in. `topic`: it does not exist. `other`: anything else, usually temporary. */
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
  /** Resolves when all in-sync replicas have all records. A rejection is about all of them: some may be stored nevertheless. */
  send(topic: string, records: readonly KafkaRecord[]): Promise<void>
  close(): Promise<void>
}

export interface KafkaPartition {
  readonly topic: string
  readonly partition: number
}

/** A fetched record. */
export interface KafkaMessage extends KafkaPartition {
  readonly offset: string
  /** Milliseconds since the epoch, as text. */
  readonly timestamp: string
  readonly key: Buffer | null
  /** `null` is a tombstone: the value of the key was deleted. */
  readonly value: Buffer | null
  readonly headers: Readonly<Record<string, Buffer | string | readonly (Buffer | string)[] | undefined>>
}

export interface KafkaConsumerOptions {
  readonly group: string
  readonly topics: readonly string[]
  /** Where a group starts that has no committed offset. */
  readonly from: 'oldest' | 'newest'
}

/** Called by the consumer. They must not throw. */
export interface KafkaConsumerEvents {
  /** A rebalance has ended. `member` changes if the group had removed this consumer in between: then other members had its partitions meanwhile. */
  assigned(partitions: readonly KafkaPartition[], member: string): void
  /** A rebalance begins. */
  revoking(): void
  /** A heartbeat was accepted outside of a rebalance: this consumer still has its partitions. */
  confirmed(): void
  /** Returns how many of the messages, from the first on, were accepted. The others are fetched again. */
  fetched(partition: KafkaPartition, messages: readonly KafkaMessage[]): number
  /** The consumer has stopped because of an error. */
  crashed(error: unknown): void
}

export interface KafkaConsumer {
  /** Resolves when joining the group has begun; rejects if that is not possible. */
  start(): Promise<void>
  /** Commits the offsets of the next messages to be read. */
  commit(offsets: readonly (KafkaPartition & { readonly offset: string })[]): Promise<void>
  pause(partition: KafkaPartition): void
  resume(partition: KafkaPartition): void
  /** Leaves the group. */
  close(): Promise<void>
}

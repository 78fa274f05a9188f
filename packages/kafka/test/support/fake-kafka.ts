import type {
  KafkaConsumer,
  KafkaConsumerEvents,
  KafkaConsumerOptions,
  KafkaFault,
  KafkaMessage,
  KafkaPartition,
  KafkaPort,
  KafkaProducer,
  KafkaRecord,
} from '../../src/index.ts'

/** A client error with a known fault. */
export class FakeError extends Error {
  readonly fault: KafkaFault

  constructor(fault: KafkaFault) {
    super(`a fault: ${fault}`)
    this.fault = fault
  }
}

/** A test-controlled consumer. */
export class FakeConsumer implements KafkaConsumer {
  readonly events: KafkaConsumerEvents
  readonly options: KafkaConsumerOptions
  readonly commits: (readonly (KafkaPartition & { readonly offset: string })[])[] = []
  readonly paused = new Set<number>()
  onStart: () => Promise<void> = () => Promise.resolve()
  onCommit: () => Promise<void> = () => Promise.resolve()
  closed = 0

  constructor(options: KafkaConsumerOptions, events: KafkaConsumerEvents) {
    this.options = options
    this.events = events
  }

  start(): Promise<void> {
    return this.onStart()
  }

  async commit(offsets: readonly (KafkaPartition & { readonly offset: string })[]): Promise<void> {
    await this.onCommit()
    this.commits.push(offsets)
  }

  pause({ partition }: KafkaPartition): void {
    this.paused.add(partition)
  }

  resume({ partition }: KafkaPartition): void {
    this.paused.delete(partition)
  }

  close(): Promise<void> {
    this.closed += 1
    return Promise.resolve()
  }

  assign(partitions: readonly number[], member = 'member-1'): void {
    this.events.assigned(
      partitions.map((partition) => ({ topic: 'orders', partition })),
      member,
    )
  }

  /** Fetches messages; returns how many were accepted. The text before the digits is the key: `a7` is offset 7 of key a, `7` has no key. */
  fetch(partition: number, ...places: readonly string[]): number {
    const messages = places.map((place) => nativeAt(partition, place))
    return this.events.fetched({ topic: 'orders', partition }, messages)
  }

  /** The offsets last committed, by partition. */
  get committed(): Record<number, string> {
    return Object.fromEntries(this.commits.flat().map(({ partition, offset }) => [partition, offset]))
  }
}

function nativeAt(partition: number, place: string): KafkaMessage {
  const [, key = '', offset = ''] = /^([a-z]*)(\d+)$/.exec(place) ?? []
  return {
    topic: 'orders',
    partition,
    offset,
    timestamp: '1767225600000',
    key: key === '' ? null : Buffer.from(key),
    value: Buffer.from(place),
    headers: {},
  }
}

export class FakeKafka implements KafkaPort {
  readonly consumers: FakeConsumer[] = []
  readonly sent: { readonly topic: string; readonly records: readonly KafkaRecord[] }[] = []
  readonly producers: { closed: boolean }[] = []
  onConsumer: (consumer: FakeConsumer) => void = () => {}
  onConnect: () => Promise<void> = () => Promise.resolve()
  onSend: (topic: string, records: readonly KafkaRecord[]) => Promise<void> = () => Promise.resolve()

  get last(): FakeConsumer {
    const consumer = this.consumers.at(-1)
    if (consumer === undefined) throw new Error('There is no consumer.')
    return consumer
  }

  producer(): KafkaProducer {
    const state = { closed: false }
    this.producers.push(state)
    return {
      connect: () => this.onConnect(),
      send: (topic, records) => {
        this.sent.push({ topic, records })
        return this.onSend(topic, records)
      },
      close: () => {
        state.closed = true
        return Promise.resolve()
      },
    }
  }

  consumer(options: KafkaConsumerOptions, events: KafkaConsumerEvents): KafkaConsumer {
    const consumer = new FakeConsumer(options, events)
    this.consumers.push(consumer)
    this.onConsumer(consumer)
    return consumer
  }

  faultOf(error: unknown): KafkaFault {
    return error instanceof FakeError ? error.fault : 'other'
  }
}

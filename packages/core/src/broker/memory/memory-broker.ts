import { AckordError, describeValue, InvalidOptionError } from '../../errors.ts'
import type { RawMessage } from '../../message/message.ts'
import { checkChoice, checkCount, checkDuration, checkName, rejectUnknownOptions } from '../../options.ts'
import type { Logger } from '../../ports/observability.ts'
import { PartPorts, type SharedPorts } from '../../ports/part-ports.ts'
import { type Runtime, systemRuntime } from '../../ports/runtime.ts'
import type { DeadLetter } from '../dead-letter.ts'
import type { Publisher, PublishResult } from '../publisher.ts'
import { createReceiver } from '../receiver.ts'
import type { Closable, Source } from '../source.ts'
import type { MemoryGroup } from './memory-group.ts'
import { MemorySchedule } from './memory-schedule.ts'
import { MemorySource } from './memory-source.ts'
import { type MemoryStats, MemoryTopic, memoryStats } from './memory-topic.ts'

export interface MemoryBrokerOptions {
  /** The number of most recently published messages that each topic keeps for `published()`, settled or not. Default: 0. */
  readonly history?: number | undefined
  readonly runtime?: Runtime | undefined
  /** Default: that of the first router or relay that uses the broker; until then the console, from `info` up. */
  readonly logger?: Logger | undefined
}

export interface MemorySourceOptions {
  /** Sources of one group share its messages; each group receives every message. Default: 'default'. */
  readonly group?: string | undefined
  /** The maximum number of unsettled messages; at that number the source waits. `Infinity` for no limit. Default: 100. */
  readonly prefetch?: number | undefined
  /**
   * The destination of rejected messages: a topic of this broker, or a publisher and destination; `'discard'` drops them.
   * Default: nowhere; a rejected message is delivered again with a growing delay, and a warning says so once.
   */
  readonly deadLetter?: string | DeadLetter | undefined
  /**
   * Milliseconds within which a message must be settled. After that it is delivered again, and settling it rejects with
   * `ACKORD_LEASE_LOST`. Default: Infinity.
   */
  readonly ackTimeout?: number | undefined
  /**
   * Delivers the messages of one `partitionkey` in order: the next one only when the previous one is acked or dead-lettered,
   * however long that takes. Other keys, and messages without a key, do not wait. The group's first source decides for the group.
   * Default: as the group has it, and `false` for a new one.
   */
  readonly orderPerKey?: boolean | undefined
  /**
   * Where a new group starts: at the oldest message that the topic still keeps, or with the messages published from now on.
   * Ignored for an existing group. Default: 'oldest'.
   */
  readonly from?: 'oldest' | 'newest' | undefined
}

/**
 * An in-memory broker for tests and demos: at-least-once, with groups, redelivery, dead letters and order per key.
 * Its messages are lost when the process ends. A delayed message keeps the process alive; waiting for a message to be published does not.
 *
 * Topics and messages: a topic is created when it is first named. Until its first group exists, the topic keeps every message.
 * From then on it keeps a message until all groups that existed when it was published, or that started with it, have acked
 * or rejected it, and then frees its memory. A group is created with its first source. It stays, with all messages that it has
 * not acked, even while it has no source. If the first group starts at the newest message, the messages kept before are freed.
 * Topics and groups themselves stay until `close()`. Bytes are not copied: a publisher must not change them afterwards.
 *
 * A nacked message returns to the head of its group and alternates with new messages, so that a message that always fails
 * does not block them.
 */
export class MemoryBroker implements Publisher {
  readonly system: string = 'memory'
  readonly #runtime: Runtime
  readonly #ports: PartPorts
  readonly #history: number
  readonly #schedule: MemorySchedule
  readonly #topics = new Map<string, MemoryTopic>()
  readonly #failures = new Map<string, unknown>()
  #closed = false

  constructor(options: MemoryBrokerOptions = {}) {
    const { history = 0, runtime = systemRuntime, logger, ...unknown } = options
    rejectUnknownOptions('A memory broker', unknown)
    this.#history = checkCount('history', history, { min: 0, infinite: true })
    this.#runtime = runtime
    this.#ports = new PartPorts({ logger })
    this.#schedule = new MemorySchedule(runtime)
  }

  // Async, so that errors become rejections. All messages are stored before the first await.
  async publish(
    topic: string,
    messages: readonly RawMessage[],
    options: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<readonly PublishResult[]> {
    this.#checkOpen()
    checkName('topic', topic)
    options.signal?.throwIfAborted()
    if (this.#failures.has(topic)) {
      const error = this.#failures.get(topic)
      return messages.map(() => ({ ok: false, error, scope: 'destination' }))
    }
    const target = this.#topic(topic)
    const results = messages.map((message) => {
      if (!(message.data instanceof Uint8Array)) return wrongData(topic, message.data)
      target.append(message)
      return ok
    })
    target.serve()
    return results
  }

  /**
   * Creates a source for the topic. Its group exists from now on, so it collects messages before the first pull. May be iterated several times,
   * also concurrently.
   */
  source(topic: string, options: MemorySourceOptions = {}): Source & Closable {
    const { group = 'default', prefetch = 100, ackTimeout = Infinity, deadLetter, from = 'oldest', orderPerKey, ...unknown } = options
    rejectUnknownOptions('A source of the memory broker', unknown)
    this.#checkOpen()
    checkName('topic', topic)
    checkName('group', group)
    checkCount('prefetch', prefetch, { infinite: true })
    checkDuration('ackTimeout', ackTimeout, { min: 1, infinite: true })
    checkChoice('from', from, ['oldest', 'newest'])
    const receive = createReceiver({
      deadLetter: this.#deadLetter(topic, deadLetter),
      runtime: this.#runtime,
      logger: this.#ports.logger,
    })
    const shared = this.#group(topic, group, orderPerKey, from)
    return new MemorySource(shared, this.#schedule, { receive, prefetch, ackTimeout, origin: topic })
  }

  inheritPorts(ports: SharedPorts): void {
    this.#ports.inheritPorts(ports)
  }

  /** The numbers of one group, or the sum of all groups. All are 0 for a topic or group that does not exist. */
  stats(topic: string, group?: string | undefined): MemoryStats {
    return memoryStats(this.#topics.get(topic), group)
  }

  /** The most recently published messages of the topic, oldest first, at most `history` of them. They cannot be settled. */
  published(topic: string): RawMessage[] {
    return this.#topics.get(topic)?.history() ?? []
  }

  /**
   * Resolves when the group has acked, dead-lettered or discarded every message, so that none is in flight or delayed.
   * For a group that does not exist yet, the messages that the topic keeps count. Rejects if the broker is closed first.
   */
  async idle(topic: string, group = 'default', options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    this.#checkOpen()
    options.signal?.throwIfAborted()
    await this.#topics.get(topic)?.idle(group, options.signal)
  }

  /** Simulates an outage: publishing to the topic fails with this error, as a fault of the destination. `undefined` ends the outage. */
  fail(topic: string, error: unknown): void {
    if (error === undefined) this.#failures.delete(topic)
    else this.#failures.set(topic, error)
  }

  /** Ends all iterations and drops all messages; settling one afterwards rejects. Does not wait for consumers: stop them first. Idempotent. */
  close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = true
      this.#schedule.clear()
      for (const topic of this.#topics.values()) topic.close(isClosed())
      this.#topics.clear()
      this.#failures.clear()
    }
    return Promise.resolve()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #checkOpen(): void {
    if (this.#closed) throw isClosed()
  }

  #topic(name: string): MemoryTopic {
    let topic = this.#topics.get(name)
    if (topic === undefined) {
      topic = new MemoryTopic(this.#schedule, this.#history)
      this.#topics.set(name, topic)
    }
    return topic
  }

  #group(topicName: string, name: string, orderPerKey: boolean | undefined, from: 'oldest' | 'newest'): MemoryGroup {
    const topic = this.#topic(topicName)
    const group = topic.groups.get(name)
    if (group === undefined) return topic.createGroup(name, { orderPerKey: orderPerKey ?? false, from })
    if (orderPerKey !== undefined && orderPerKey !== group.orderPerKey) {
      throw new InvalidOptionError(
        'orderPerKey',
        `must be ${group.orderPerKey}, as the first source of group '${name}' on '${topicName}' has it.`,
      )
    }
    return group
  }

  #deadLetter(topic: string, deadLetter: string | DeadLetter | undefined): DeadLetter | 'discard' | undefined {
    if (typeof deadLetter !== 'string' || deadLetter === 'discard') return deadLetter
    checkName('deadLetter', deadLetter)
    if (deadLetter === topic) throw new InvalidOptionError('deadLetter', `must not be '${topic}', the source's own topic.`)
    return { publisher: this, destination: deadLetter }
  }
}

const ok: PublishResult = { ok: true }

function wrongData(topic: string, data: unknown): PublishResult {
  const text = `The memory broker carries bytes; a message to '${topic}' has ${describeValue(data)}. Marshal it first.`
  return { ok: false, error: new AckordError('ACKORD_WRONG_DATA', text, { retryable: false }), permanent: true }
}

function isClosed(): AckordError {
  return new AckordError('ACKORD_SHUTDOWN', 'The memory broker is closed.')
}

import assert from 'node:assert/strict'
import { type Attributes, isAckordError, Message, type Publisher, publishAll, type RawMessage, type Source } from '@ackord/core'
import { within } from '../../run/scenario.ts'
import type { BrokerSourceOptions, BrokerTopic, BrokerWorld, OpenBrokerWorld } from './broker-world.ts'

const utf8 = new TextEncoder()

/** A world with one topic and a publisher. Each wait has a time limit, so that a missing message is a failure with a clear message. */
export class BrokerSession implements AsyncDisposable {
  readonly world: BrokerWorld
  readonly topic: BrokerTopic
  readonly publisher: Publisher
  #markers = 0

  private constructor(world: BrokerWorld, topic: BrokerTopic) {
    this.world = world
    this.topic = topic
    this.publisher = world.publisher()
  }

  static async open(open: OpenBrokerWorld): Promise<BrokerSession> {
    const world = await open()
    try {
      return new BrokerSession(world, await world.topic())
    } catch (error) {
      await world[Symbol.asyncDispose]()
      throw error
    }
  }

  /** Publishes to the topic; every message must be confirmed. */
  async send(...messages: readonly RawMessage[]): Promise<void> {
    await this.inTime(publishAll(this.publisher, this.topic.destination, messages), 'publishing')
  }

  /** A source of the topic. Its iteration starts when the first message is requested. */
  read(options: BrokerSourceOptions = {}, topic: BrokerTopic = this.topic): Reader {
    return new Reader(this, topic.source(options))
  }

  inTime<T>(work: Promise<T>, what: string): Promise<T> {
    return within(this.world.patience ?? 20_000, work, what)
  }

  /**
   * Acks the messages that a group has for a new source, and checks their ids. These ids must arrive; others are detected by marker messages that are
   * published after them: a broker that redelivers a message may deliver new ones first, but not for ever.
   */
  async left(expected: readonly (string | undefined)[] = [], options: BrokerSourceOptions = {}): Promise<(string | undefined)[]> {
    const reader = this.read(options)
    const seen: (string | undefined)[] = []
    for (const ids of [expected, []]) {
      const marker = this.marker()
      await this.send(marker)
      const missing = new Set([...ids, marker.id].filter((id) => !seen.includes(id)))
      while (missing.size > 0) {
        const [message] = await reader.ack(1)
        seen.push(message?.id)
        missing.delete(message?.id)
      }
    }
    await reader.dispose()
    return seen.filter((id) => id?.startsWith('marker') !== true)
  }

  /** A message that is published to detect messages before it. Each has its own id, because a broker may drop repeated ones. */
  marker(): RawMessage {
    this.#markers += 1
    return event(`marker${this.#markers}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.world[Symbol.asyncDispose]()
  }
}

/** One source and its iteration. */
export class Reader {
  readonly source: Source & AsyncDisposable
  readonly #session: BrokerSession
  readonly #stop = new AbortController()
  #iterator: AsyncIterator<RawMessage> | undefined

  constructor(session: BrokerSession, source: Source & AsyncDisposable) {
    this.#session = session
    this.source = source
  }

  get iterator(): AsyncIterator<RawMessage> {
    this.#iterator ??= this.source.messages({ signal: this.#stop.signal })[Symbol.asyncIterator]()
    return this.#iterator
  }

  async next(): Promise<RawMessage> {
    const { done, value } = await this.#session.inTime(this.iterator.next(), 'waiting for a message')
    if (done === true) throw new Error('The iteration ended while messages were waited for.')
    return value
  }

  /** Takes this many messages and settles none. */
  async take(count: number): Promise<RawMessage[]> {
    const messages: RawMessage[] = []
    while (messages.length < count) messages.push(await this.next())
    return messages
  }

  /** Takes this many messages and acks each before the next. */
  async ack(count: number): Promise<RawMessage[]> {
    const messages: RawMessage[] = []
    while (messages.length < count) {
      const message = await this.next()
      messages.push(message)
      await this.#session.inTime(message.ack(), 'an ack')
    }
    return messages
  }

  /** Acks all messages up to and including this one. Resolves to the ids of those before it. */
  async ackUntil(id: string): Promise<(string | undefined)[]> {
    const before: (string | undefined)[] = []
    for (;;) {
      const message = await this.next()
      await this.#session.inTime(message.ack(), 'an ack')
      if (message.id === id) return before
      before.push(message.id)
    }
  }

  /** The iteration must end without an error. */
  async ended(): Promise<void> {
    const { done } = await this.#session.inTime(this.iterator.next(), 'the end of an iteration')
    assert.equal(done, true, 'the iteration should have ended')
  }

  abort(): void {
    this.#stop.abort()
  }

  /** Ends the iteration as `break` does. */
  async leave(): Promise<void> {
    await this.#session.inTime(Promise.resolve(this.iterator.return?.()), 'leaving an iteration')
  }

  async dispose(): Promise<void> {
    await this.#session.inTime(this.source[Symbol.asyncDispose](), 'disposing a source')
  }
}

/** A complete event with its own ordering key. */
export function event(id: string, attributes: Attributes = {}, data: Uint8Array = utf8.encode(JSON.stringify({ id }))): RawMessage {
  return new Message(data, { id, type: 'test.event', source: '/test', specversion: '1.0', partitionkey: id, ...attributes })
}

/** `e1`, `e2` and so on. */
export function events(count: number, prefix = 'e', attributes: Attributes = {}): RawMessage[] {
  return Array.from({ length: count }, (_, index) => event(`${prefix}${index + 1}`, attributes))
}

export function idsOf(messages: readonly RawMessage[]): (string | undefined)[] {
  return messages.map(({ id }) => id)
}

function sorted(ids: readonly (string | undefined)[]): string[] {
  return ids.map(String).sort()
}

/** Asserts that every id that was sent has arrived. Returns the number of ids that arrived more than once, and fails if that is not allowed. */
export function checkComplete(
  seen: readonly (string | undefined)[],
  sent: readonly (string | undefined)[],
  options: { readonly once: boolean },
): string {
  assert.deepEqual(sorted([...new Set(seen)]), sorted(sent), 'exactly the messages that were sent must arrive')
  const duplicates = seen.length - sent.length
  if (options.once) assert.equal(duplicates, 0, 'nothing may come twice')
  return `${duplicates} duplicates`
}

/** Asserts that a verdict on a message that its source has released is rejected. */
export async function assertRefused(verdict: Promise<boolean>): Promise<void> {
  const answer = await verdict.then(
    (taken) => `it resolved ${taken}`,
    (error: unknown) => error,
  )
  assert.ok(
    isAckordError(answer, 'ACKORD_SHUTDOWN') || isAckordError(answer, 'ACKORD_LEASE_LOST'),
    `the verdict should be refused: ${answer}`,
  )
}

import { type Attributes, Message, type Publisher, publishAll, type RawMessage, silentLogger } from '@ackord/core'
import { createReceiver } from '@ackord/core/broker'
import { expect } from 'vitest'
import { ackord, type Ended } from './ackord.ts'
import { openTestTopic, type TestTopic } from './services.ts'

interface ListedLetter {
  readonly id: string
  readonly position: string
  readonly type: string
  readonly destination?: string
  readonly reason?: string
  readonly replayable: boolean
}

/** A destination and its dead-letter destination at one broker, and the arguments that select them. */
export interface LettersWorld extends AsyncDisposable {
  readonly origin: TestTopic
  readonly dead: TestTopic
  readonly args: readonly string[]
  readonly publisher: Publisher
  /** Rejects messages that came from the origin, as a source does. */
  reject(ids: readonly string[], more?: RejectOptions): Promise<void>
  run(command: string, ...args: readonly string[]): Promise<Ended>
  list(...args: readonly string[]): Promise<readonly ListedLetter[]>
}

interface RejectOptions {
  readonly attributes?: Attributes
  /** Default: the origin. `undefined`: the source does not know it. */
  readonly origin?: string | undefined
  /** The dead letter. Default: the broker's publisher. */
  readonly publisher?: Publisher
}

export function messageOf(id: string, attributes: Attributes = {}): RawMessage {
  const own = { id, type: 'order.place', source: '/shop', specversion: '1.0', datacontenttype: 'application/json', partitionkey: 'c1' }
  return new Message(new TextEncoder().encode(`{"order":"${id}"}`), { ...own, ...attributes })
}

export async function openLetters(url: string): Promise<LettersWorld> {
  const origin = await openTestTopic(url)
  const dead = await openTestTopic(url)
  const { publisher } = dead.broker
  const args = ['--broker', url, '--from', dead.topic, '--group', `group-${dead.topic}`]
  const run: LettersWorld['run'] = (command, ...more) => ackord(['dead-letters', command, '--json', ...args, ...more])
  return {
    origin,
    dead,
    args,
    publisher,
    async reject(ids, more = {}) {
      const from = 'origin' in more ? more.origin : origin.topic
      const deadLetter = { publisher: more.publisher ?? publisher, destination: dead.topic }
      const receive = createReceiver({ deadLetter, logger: silentLogger })
      for (const id of ids) {
        const { data, attributes } = messageOf(id, more.attributes)
        const message = receive({ data, attributes, origin: from, ack() {}, nack: (error) => Promise.reject(error) })
        await message.reject(new Error(`no customer for ${id}`))
      }
    },
    run,
    async list(...more) {
      const { code, last } = await run('list', ...more)
      expect(code).toBe(0)
      return last['letters'] as ListedLetter[]
    },
    async [Symbol.asyncDispose]() {
      await dead[Symbol.asyncDispose]()
      await origin[Symbol.asyncDispose]()
    },
  }
}

export interface Reader extends AsyncDisposable {
  /** Reads this many messages, and acks them. */
  take(count: number): Promise<readonly RawMessage[]>
}

export function openReader({ broker, topic }: TestTopic): Reader {
  const source = broker.source(topic)
  const messages = source.messages({ signal: AbortSignal.timeout(60_000) })[Symbol.asyncIterator]()
  return {
    async take(count) {
      const read: RawMessage[] = []
      while (read.length < count) {
        const { done, value } = await messages.next()
        if (done === true) throw new Error(`Only ${read.length} of ${count} messages arrived.`)
        await value.ack()
        read.push(value)
      }
      return read
    },
    [Symbol.asyncDispose]: () => source[Symbol.asyncDispose](),
  }
}

/** Reads this many messages of a topic, and acks them. */
export async function readMessages(topic: TestTopic, count: number): Promise<readonly RawMessage[]> {
  await using reader = openReader(topic)
  return await reader.take(count)
}

/** Publishes to a topic, as its producers do. */
export async function publishTo({ broker, topic }: TestTopic, ...messages: readonly RawMessage[]): Promise<void> {
  await publishAll(broker.publisher, topic, messages)
}

export function idsOf(letters: readonly { readonly id?: string | undefined }[]): readonly string[] {
  return letters.map(({ id }) => id ?? '').sort()
}

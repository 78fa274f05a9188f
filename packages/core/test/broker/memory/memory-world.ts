import { MemoryBroker, type MemoryBrokerOptions } from '../../../src/broker/memory/memory-broker.ts'
import type { Source } from '../../../src/broker/source.ts'
import type { Attributes } from '../../../src/message/attributes.ts'
import { Message, type RawMessage } from '../../../src/message/message.ts'
import { recordingLogger } from '../../support/recording-logger.ts'
import { settlePromises, VirtualRuntime } from '../../support/virtual-runtime.ts'

/** A broker with a virtual clock, and shorthands to use it. */
export class MemoryWorld {
  readonly runtime: VirtualRuntime = new VirtualRuntime()
  readonly logger: ReturnType<typeof recordingLogger> = recordingLogger()
  readonly broker: MemoryBroker

  constructor(options: MemoryBrokerOptions = {}) {
    this.broker = new MemoryBroker({ runtime: this.runtime, logger: this.logger, ...options })
  }

  /** Publishes one message per id; for `key:name` the part before the colon is the ordering key. */
  async publish(topic: string, ...ids: string[]): Promise<void> {
    await this.broker.publish(topic, ids.map(raw), { signal: never })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.broker.close()
  }
}

/** A signal that is never aborted. */
export const never: AbortSignal = new AbortController().signal

export function raw(id: string): RawMessage {
  const [key, name] = id.split(':')
  const attributes: Attributes = { id, type: 'test', source: '/test', specversion: '1.0' }
  return new Message(new TextEncoder().encode(id), name === undefined ? attributes : { ...attributes, partitionkey: key })
}

/** One iteration of a source, pulled step by step. */
export class Reader {
  readonly #iterator: AsyncIterator<RawMessage>

  constructor(source: Source, signal: AbortSignal = never) {
    this.#iterator = source.messages({ signal })[Symbol.asyncIterator]()
  }

  /** Pulls the next message, which may have to wait; `undefined` when the iteration has ended. */
  async pull(): Promise<RawMessage | undefined> {
    const result = await this.#iterator.next()
    return result.done ? undefined : result.value
  }

  /** Pulls a message that must be available without waiting. */
  async take(): Promise<RawMessage> {
    const pulled = this.pull()
    if (await isPending(pulled)) throw new Error('There is no message to take.')
    const message = await pulled
    if (message === undefined) throw new Error('The iteration has ended.')
    return message
  }

  async takeMany(count: number): Promise<RawMessage[]> {
    const messages: RawMessage[] = []
    while (messages.length < count) messages.push(await this.take())
    return messages
  }

  async leave(): Promise<void> {
    await this.#iterator.return?.()
  }
}

export function ids(messages: readonly RawMessage[]): (string | undefined)[] {
  return messages.map((message) => message.id)
}

export async function isPending(promise: Promise<unknown>): Promise<boolean> {
  let pending = true
  const settled = () => {
    pending = false
  }
  promise.then(settled, settled)
  await settlePromises()
  return pending
}

import type { Publisher, PublishFailure, PublishResult, RawMessage } from '@ackord/core'
import { abortable, checkCount, checkFunction, checkName, checkNoMore, inChunks, PublishCalls } from '@ackord/core/internal'
import type { RedisArgument } from '../port.ts'
import { internalsOf, type Redis, type RedisInternals } from '../redis.ts'
import { addEntries, type NewEntry } from './add-entries.ts'
import { aborted, heldBack, notAdded, tooLarge, unwritable, wrongData } from './publish-failures.ts'
import { writeEntry } from './stream-entry.ts'
import { shardName, shardOf } from './stream-names.ts'

export interface StreamPublisherOptions {
  /** The stream for a message to this destination. Default: the stream of that name. */
  readonly stream?: ((destination: string, message: RawMessage) => string) | undefined
  /**
   * Spreads each stream over so many, `orders:0`, `orders:1` and so on, by the message's `partitionkey`; those without one by their id. Sources
   * have to have the same number. Changing it tears the order of keys, unless the streams are empty meanwhile. Default: one stream under its own name.
   */
  readonly shards?: number | undefined
  /** The most bytes of a message, attributes included; a larger one fails for good. Redis itself takes 512 MB. Default: 64 MB. */
  readonly maxSize?: number | undefined
}

/**
 * Adds messages to streams. What is `ok` is in the stream; how safe it is there is the server's setting, see `checkDurability()`. Nothing is ever
 * trimmed here. The messages of a call go to each stream in as few round trips as there are chunks of some megabytes; of one `partitionkey` they
 * are in the order of the call, and when one fails those of its key behind it are not added. One that is tried again after a lost answer is there twice.
 */
export function streamPublisher(redis: Redis, options: StreamPublisherOptions = {}): Publisher & AsyncDisposable {
  const { stream = (destination) => destination, shards, maxSize = 64 * 1024 * 1024, ...unknown } = options
  checkNoMore('A stream publisher', unknown)
  checkFunction('stream', stream)
  if (shards !== undefined) checkCount('shards', shards)
  checkCount('maxSize', maxSize)
  return new StreamPublisher(internalsOf(redis), { stream, shards, maxSize })
}

interface PublisherSettings {
  readonly stream: (destination: string, message: RawMessage) => string
  readonly shards: number | undefined
  readonly maxSize: number
}

interface Outgoing extends NewEntry {
  readonly stream: string
  readonly index: number
}

// What one script takes: the server does nothing else meanwhile.
const most = { count: 500, size: 4 * 1024 * 1024 }
// Lua cannot pass on more values than this in one call.
const mostFields = 7000

class StreamPublisher implements Publisher, AsyncDisposable {
  readonly #redis: RedisInternals
  readonly #settings: PublisherSettings
  readonly #calls = new PublishCalls('The stream publisher')

  constructor(redis: RedisInternals, settings: PublisherSettings) {
    this.#redis = redis
    this.#settings = settings
  }

  async publish(
    destination: string,
    messages: readonly RawMessage[],
    options: { readonly signal: AbortSignal },
  ): Promise<readonly PublishResult[]> {
    return await this.#calls.run(destination, options.signal, () => this.#publish(destination, messages, options.signal))
  }

  /** Waits for what is being published; the client stays open. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#calls.close()
  }

  /** Never rejects. */
  async #publish(destination: string, messages: readonly RawMessage[], signal: AbortSignal): Promise<readonly PublishResult[]> {
    const results: PublishResult[] = messages.map(() => ({ ok: true }))
    const streams = new Map<string, Outgoing[]>()
    for (const [index, message] of messages.entries()) {
      const prepared = this.#prepare(destination, message, index)
      if ('ok' in prepared) {
        results[index] = prepared
        continue
      }
      const others = streams.get(prepared.stream)
      if (others === undefined) streams.set(prepared.stream, [prepared])
      else others.push(prepared)
    }
    await Promise.all(Array.from(streams, ([stream, entries]) => this.#add(stream, entries, results, signal)))
    return results
  }

  #prepare(destination: string, message: RawMessage, index: number): Outgoing | PublishFailure {
    if (!(message.data instanceof Uint8Array)) return wrongData(destination, message.data)
    try {
      const key = message.partitionKey
      const stream = this.#streamOf(destination, message)
      const fields = writeEntry(message)
      if (fields.length > mostFields) throw new RangeError(`It has ${fields.length / 2} fields, and ${mostFields / 2} is the most.`)
      const size = fields.reduce((sum, field) => sum + lengthOf(field), 0)
      if (size > this.#settings.maxSize) return tooLarge(stream, size, this.#settings.maxSize)
      return { stream, index, key, fields, size }
    } catch (cause) {
      return unwritable(destination, cause)
    }
  }

  #streamOf(destination: string, message: RawMessage): string {
    const { stream, shards } = this.#settings
    const name = checkName('What stream() gives', stream(destination, message))
    if (shards === undefined) return name
    return shardName(name, shardOf(message.partitionKey ?? message.id ?? this.#redis.runtime.uuid(), shards))
  }

  /** One chunk after the other: sent together, a later one could be taken where an earlier one is not. Never rejects. */
  async #add(stream: string, entries: readonly Outgoing[], results: PublishResult[], signal: AbortSignal): Promise<void> {
    const failedKeys = new Set<string>()
    for (const chunk of inChunks(entries, most)) {
      const isHeld = ({ key }: Outgoing) => key !== undefined && failedKeys.has(key)
      for (const entry of chunk) if (isHeld(entry)) results[entry.index] = heldBack(stream)
      const sent = chunk.filter((entry) => !isHeld(entry))
      const answers = await this.#send(stream, sent, signal)
      for (const [position, entry] of sent.entries()) {
        const answer = answers[position] as PublishResult
        results[entry.index] = answer
        if (!answer.ok && entry.key !== undefined) failedKeys.add(entry.key)
      }
    }
  }

  async #send(stream: string, entries: readonly Outgoing[], signal: AbortSignal): Promise<readonly PublishResult[]> {
    if (signal.aborted) return entries.map(() => aborted(signal.reason))
    try {
      return await abortable(addEntries(this.#redis.port, stream, entries), signal)
    } catch (error) {
      const failure = signal.aborted ? aborted(error) : notAdded(stream, error)
      return entries.map(() => failure)
    }
  }
}

function lengthOf(field: RedisArgument): number {
  return typeof field === 'string' ? Buffer.byteLength(field) : field.length
}

import type { Closable, Publisher, PublishFailure, PublishResult, RawMessage } from '@ackord/core'
import {
  createPublisher,
  destinationFailure,
  type Outgoing,
  type PublisherDriver,
  permanentFailure,
  type SendOptions,
  unwritableFailure,
} from '@ackord/core/broker'
import { abortable, checkCount, checkFunction, checkName, groupBy, inChunks, rejectUnknownOptions } from '@ackord/core/internal'
import { type RedisArgument, type RedisPort, script } from '../client/port.ts'
import { says } from '../client/reply.ts'
import { internalsOf, type Redis } from '../transaction/redis.ts'
import type { RedisInternals } from '../transaction/redis-internals.ts'
import { writeEntry } from './entries/stream-entry.ts'
import { shardName, shardOf } from './entries/stream-names.ts'

export interface StreamPublisherOptions {
  /** The stream for a message to this destination. Default: the stream of that name. */
  readonly stream?: ((destination: string, message: RawMessage) => string) | undefined
  /**
   * Spreads each stream over this number of streams, `orders:0`, `orders:1` and so on, by the message's `partitionkey`, or by its id without one. Sources
   * need the same number. Changing it breaks the order of keys, unless the streams are empty at that time. Default: one stream under its own name.
   */
  readonly shards?: number | undefined
  /** The maximum size of a message in bytes, including its attributes; larger messages fail permanently. Redis itself accepts 512 MB. Default: 64 MB. */
  readonly maxSize?: number | undefined
}

/**
 * Adds messages to streams. A message with the result `ok` is in the stream; how durable it is there depends on the server, see `checkDurability()`. The publisher
 * never trims. The messages of a call go to each stream in as few round trips as there are chunks of some megabytes; those of one `partitionkey`
 * are added in the order of the call, and if one fails, those of its key behind it are not added. A message that is retried after a lost answer is there twice.
 */
export function streamPublisher(redis: Redis, options: StreamPublisherOptions = {}): Publisher & Closable {
  const { stream = (destination) => destination, shards, maxSize = 64 * 1024 * 1024, ...unknown } = options
  rejectUnknownOptions('A stream publisher', unknown)
  checkFunction('stream', stream)
  if (shards !== undefined) checkCount('shards', shards)
  checkCount('maxSize', maxSize)
  return createPublisher(new StreamPublisherDriver(internalsOf(redis), { stream, shards, maxSize }))
}

interface PublisherSettings {
  readonly stream: (destination: string, message: RawMessage) => string
  readonly shards: number | undefined
  readonly maxSize: number
}

// The limits of one script: the server does nothing else meanwhile.
const chunkLimits = { count: 500, size: 4 * 1024 * 1024 }

class StreamPublisherDriver implements PublisherDriver<NewEntry> {
  readonly broker = 'Redis'
  readonly system = 'redis'
  readonly routeName = 'stream'
  // Every call ends by the deadline of the client.
  readonly closeTimeout = Number.POSITIVE_INFINITY
  readonly #redis: RedisInternals
  readonly #settings: PublisherSettings

  constructor(redis: RedisInternals, settings: PublisherSettings) {
    this.#redis = redis
    this.#settings = settings
  }

  get serverAddress(): string | undefined {
    return this.#redis.port.server().serverAddress
  }

  get serverPort(): number | undefined {
    return this.#redis.port.server().serverPort
  }

  route(destination: string, message: RawMessage): string | PublishFailure {
    const { stream, shards } = this.#settings
    try {
      const name = checkName('The result of stream()', stream(destination, message))
      if (shards === undefined) return name
      return shardName(name, shardOf(message.partitionKey ?? message.id ?? this.#redis.runtime.uuid(), shards))
    } catch (cause) {
      return unwritableFailure(this.broker, `'${destination}'`, cause)
    }
  }

  write(message: RawMessage, stream: string): NewEntry | PublishFailure {
    const fields = writeEntry(message)
    const size = fields.reduce((sum, field) => sum + lengthOf(field), 0)
    if (size > this.#settings.maxSize) return tooLarge(stream, size, this.#settings.maxSize)
    return { stream, key: message.partitionKey, fields, size }
  }

  async send(messages: readonly Outgoing<NewEntry>[], { signal }: SendOptions): Promise<void> {
    const streams = groupBy(messages, ({ item }) => item.stream)
    await Promise.all(Array.from(streams, ([stream, entries]) => this.#add(stream, entries, signal)))
  }

  /** One chunk after the other: sent together, a later one could be accepted where an earlier one is not. Never rejects. */
  async #add(stream: string, entries: readonly Outgoing<NewEntry>[], signal: AbortSignal): Promise<void> {
    const failedKeys = new Set<string>()
    for (const chunk of inChunks(entries, chunkLimits, ({ item }) => item.size)) {
      if (signal.aborted) return
      const isHeld = ({ item: { key } }: Outgoing<NewEntry>) => key !== undefined && failedKeys.has(key)
      for (const entry of chunk) if (isHeld(entry)) entry.settle(heldBack(stream))
      const sent = failedKeys.size === 0 ? chunk : chunk.filter((entry) => !isHeld(entry))
      const answers = await this.#send(stream, sent, signal)
      for (const [position, entry] of sent.entries()) {
        const answer = answers[position] as PublishResult
        entry.settle(answer)
        const { key } = entry.item
        if (!answer.ok && key !== undefined) failedKeys.add(key)
      }
    }
  }

  async #send(stream: string, entries: readonly Outgoing<NewEntry>[], signal: AbortSignal): Promise<readonly PublishResult[]> {
    try {
      const adding = addEntries(
        this.#redis.port,
        stream,
        entries.map(({ item }) => item),
      )
      return await abortable(adding, signal)
    } catch (error) {
      const failure = notAdded(stream, error)
      return entries.map(() => failure)
    }
  }
}

function lengthOf(field: RedisArgument): number {
  return typeof field === 'string' ? Buffer.byteLength(field) : field.length
}

/** An entry to be added to a stream. */
export interface NewEntry {
  readonly stream: string
  /** When an entry of a key fails, later ones of the same key are not added. */
  readonly key: string | undefined
  readonly fields: readonly RedisArgument[]
  readonly size: number
}

// KEYS: the stream. ARGV per entry: a number for its key or 0, the number of names and values, then these.
// Answers per entry: '' if it was added, 'HELD' behind one of its key that was not, or the error of the server.
const add = script(`
local answers, failed, at = {}, {}, 1
while at <= #ARGV do
  local key, count = ARGV[at], tonumber(ARGV[at + 1])
  if failed[key] then
    answers[#answers + 1] = 'HELD'
  else
    local added = redis.pcall('XADD', KEYS[1], '*', unpack(ARGV, at + 2, at + 1 + count))
    local refused = type(added) == 'table' and added.err
    if refused and key ~= '0' then failed[key] = true end
    answers[#answers + 1] = refused or ''
  end
  at = at + 2 + count
end
return answers`)

/** Rejects if the results of all entries are unknown. */
export async function addEntries(
  port: RedisPort,
  stream: string,
  entries: readonly Omit<NewEntry, 'stream'>[],
): Promise<readonly PublishResult[]> {
  if (entries.length === 0) return []
  const numbers = new Map<string, number>()
  const args: RedisArgument[] = []
  for (const { key, fields } of entries) {
    if (key !== undefined && !numbers.has(key)) numbers.set(key, numbers.size + 1)
    args.push(String(key === undefined ? 0 : numbers.get(key)), String(fields.length), ...fields)
  }
  const answers = await port.evaluate(add, [stream], args)
  return entries.map((_, index): PublishResult => {
    const answer = String((answers as readonly unknown[])[index])
    if (answer === '') return { ok: true }
    return answer === 'HELD' ? heldBack(stream) : notAdded(stream, answer)
  })
}

/** The failure of an XADD, from the error of the server, the client or the deadline. */
function notAdded(stream: string, cause: unknown): PublishFailure {
  if (says(cause, 'too large', 'invalid bulk length', 'string exceeds maximum')) {
    return permanentFailure(`A message is too large for stream '${stream}'.`, cause)
  }
  if (says(cause, 'WRONGTYPE')) {
    const text = `The key '${stream}' is not a stream. Publish under another name, or delete the key.`
    return { ...permanentFailure(text, cause), scope: 'destination' }
  }
  return destinationFailure(`Redis did not accept a message for stream '${stream}': ${reasonOf(cause)}`, cause)
}

function reasonOf(cause: unknown): string {
  if (says(cause, 'OOM')) return 'it is out of memory.'
  if (says(cause, 'READONLY')) return 'it is a replica; the clients have not found the new master yet.'
  if (says(cause, 'LOADING')) return 'it is loading its data.'
  if (says(cause, 'CLUSTERDOWN', 'TRYAGAIN')) return 'the cluster does not serve that slot at the moment.'
  if (says(cause, 'NOREPLICAS')) return 'it has fewer replicas than min-replicas-to-write.'
  if (says(cause, 'NOPERM', 'NOAUTH', 'WRONGPASS')) return 'the user is not allowed to.'
  return 'the cause says why. It may have been added nevertheless.'
}

/** An earlier message of its key was not added: this one would be out of order. */
function heldBack(stream: string): PublishFailure {
  return destinationFailure(`An earlier message with the same partitionkey was not added to stream '${stream}', so this one was not added.`)
}

function tooLarge(stream: string, size: number, maxSize: number): PublishFailure {
  return permanentFailure(`A message of ${size} bytes to stream '${stream}' is larger than maxSize, ${maxSize}.`)
}

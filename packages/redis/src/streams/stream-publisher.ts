import { AckordError, type Publisher, type PublishFailure, type PublishResult, type RawMessage } from '@ackord/core'
import { abortable, checkCount, checkFunction, checkName, checkNoMore, describeValue, inChunks, PublishCalls } from '@ackord/core/internal'
import { type RedisArgument, type RedisPort, script } from '../client/port.ts'
import { says } from '../client/reply.ts'
import { internalsOf, type Redis, type RedisInternals } from '../transaction/redis.ts'
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

// The size of one script: the server does nothing else meanwhile.
const most = { count: 500, size: 4 * 1024 * 1024 }

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

  /** Waits for calls of `publish()` that run; the client stays open. */
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

  /** One chunk after the other: sent together, the server could accept a later chunk but not an earlier one. Never rejects. */
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

/** A message that is to be added to a stream. */
export interface NewEntry {
  /** If one message of a key fails, those of the same key behind it are not added. */
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
export async function addEntries(port: RedisPort, stream: string, entries: readonly NewEntry[]): Promise<readonly PublishResult[]> {
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

/** The result of an XADD that failed: an error of the server, the client or the deadline. */
function notAdded(stream: string, cause: unknown): PublishFailure {
  if (says(cause, 'too large', 'invalid bulk length', 'string exceeds maximum')) {
    return { ok: false, error: failed(`A message is too large for stream '${stream}'.`, { cause, retryable: false }), permanent: true }
  }
  if (says(cause, 'WRONGTYPE')) {
    const text = `The key '${stream}' is not a stream. Publish under another name, or delete the key.`
    return { ok: false, error: failed(text, { cause, retryable: false }), permanent: true, scope: 'destination' }
  }
  return {
    ok: false,
    error: failed(`Redis did not accept a message for stream '${stream}': ${reasonOf(cause)}`, { cause }),
    scope: 'destination',
  }
}

function reasonOf(cause: unknown): string {
  if (says(cause, 'OOM')) return 'it is out of memory.'
  if (says(cause, 'READONLY')) return 'it is a replica; the clients have not found the new master yet.'
  if (says(cause, 'LOADING')) return 'it is loading its data.'
  if (says(cause, 'CLUSTERDOWN', 'TRYAGAIN')) return 'the cluster does not serve that slot at the moment.'
  if (says(cause, 'NOREPLICAS')) return 'it has fewer replicas than min-replicas-to-write.'
  if (says(cause, 'NOPERM', 'NOAUTH', 'WRONGPASS')) return 'the user is not allowed to.'
  return 'the cause says why. It may have it all the same.'
}

/** An earlier message with the same key was not added: added behind it, this one would be out of order. */
function heldBack(stream: string): PublishFailure {
  const text = `An earlier message with the same partitionkey was not added to stream '${stream}', so this one was not added.`
  return { ok: false, error: failed(text), scope: 'destination' }
}

function aborted(cause: unknown): PublishFailure {
  return { ok: false, error: failed('Publishing was aborted before Redis had confirmed the message.', { cause }), scope: 'destination' }
}

function wrongData(destination: string, data: unknown): PublishFailure {
  const text = `Redis stores bytes; a message to '${destination}' has ${describeValue(data)}. Marshal it first.`
  return { ok: false, error: new AckordError('ACKORD_WRONG_DATA', text, { retryable: false }), permanent: true }
}

function unwritable(destination: string, cause: unknown): PublishFailure {
  const text = `A message to '${destination}' cannot be written as an entry of a stream; the cause says why.`
  return { ok: false, error: failed(text, { cause, retryable: false }), permanent: true }
}

function tooLarge(stream: string, size: number, maxSize: number): PublishFailure {
  const text = `A message of ${size} bytes to stream '${stream}' is larger than maxSize, ${maxSize}.`
  return { ok: false, error: failed(text, { retryable: false }), permanent: true }
}

function failed(text: string, options: { readonly cause?: unknown; readonly retryable?: boolean } = {}): AckordError {
  return new AckordError('ACKORD_PUBLISH_FAILED', text, options)
}

import { type Attributes, Message, type Publisher, publishAll, type RawMessage, type Source } from '@ackord/core'
import { type RecordingLogger, recordingLogger } from '@ackord/testkit'
import { ownName } from '../../../../scripts/test-run.mjs'
import { type StreamPublisherOptions, type StreamSourceOptions, streamPublisher, streamSource } from '../../src/streams/index.ts'
import { type ClientSettings, type RedisKind, redisKinds, type TestRedis } from '../support/redis-clients.ts'

export interface StreamWorld extends AsyncDisposable {
  readonly redis: TestRedis['redis']
  readonly command: TestRedis['command']
  readonly logger: RecordingLogger
  /** A unique name; the stream and its related keys are deleted at the end. */
  readonly stream: string
  /** A second client on the same server, closed at the end: to Redis, another process. */
  another(settings?: ClientSettings): Promise<TestRedis>
  source(options?: Partial<StreamSourceOptions>, on?: TestRedis): Source & AsyncDisposable
  publisher(options?: StreamPublisherOptions): Publisher & AsyncDisposable
  /** Publishes one message per id, in order. */
  fill(ids: readonly string[], attributes?: (id: string) => Attributes): Promise<void>
  /** The number of entries of the group that are delivered and not acked. */
  pending(group?: string, stream?: string): Promise<number>
  length(stream?: string): Promise<number>
}

const single: RedisKind = redisKinds[0] as RedisKind

export async function openStreams(kind: RedisKind = single, settings: ClientSettings = {}): Promise<StreamWorld> {
  const logger = recordingLogger()
  const clientSettings: ClientSettings = { ...settings, options: { logger, deadline: 5000, ...settings.options } }
  const client = await kind.open(clientSettings)
  const name = `orders-${ownName()}`
  const opened: AsyncDisposable[] = []
  const prefix = settings.keyPrefix ?? ''

  return {
    redis: client.redis,
    command: client.command,
    logger,
    stream: name,
    async another(more = {}) {
      const other = await kind.open({ ...clientSettings, ...more })
      opened.unshift(other)
      return other
    },
    source(options = {}, on = client) {
      const source = streamSource(on.redis, { stream: name, group: 'billing', block: 200, ...options })
      opened.unshift(source)
      return source
    },
    publisher(options = {}) {
      return streamPublisher(client.redis, options)
    },
    fill: (ids, attributes) =>
      publishAll(
        streamPublisher(client.redis),
        name,
        ids.map((id) => event(id, attributes?.(id))),
      ),
    async pending(group = 'billing', stream = name) {
      try {
        const [count] = (await client.command('XPENDING', prefix + stream, group)) as [number]
        return Number(count)
      } catch (error) {
        if (String(error).includes('NOGROUP')) return 0
        throw error
      }
    },
    length: async (stream = name) => Number(await client.command('XLEN', prefix + stream)),
    async [Symbol.asyncDispose]() {
      for (const each of opened) await each[Symbol.asyncDispose]()
      await deleteKeys(client, prefix, name)
      await client[Symbol.asyncDispose]()
    },
  }
}

/** Deletes all keys that this world may have created. Each name is looked up separately, because KEYS does not cover all nodes of a cluster. */
async function deleteKeys(client: TestRedis, prefix: string, name: string): Promise<void> {
  const streams = [name, ...Array.from({ length: 8 }, (_, index) => `${name}:${index}`)]
  const suffixes = [
    'dead',
    'dead:retry:operators',
    ...['billing', 'shipping'].flatMap((group) => [`retry:${group}`, `lease:${group}`, `members:${group}`]),
  ]
  const keys = streams.flatMap((stream) => [stream, ...suffixes.map((suffix) => `{${prefix}${stream}}:${suffix}`)])
  await Promise.all(keys.map((key) => client.command('DEL', prefix + key)))
}

export function event(id: string, attributes: Attributes = {}): RawMessage {
  const data = new TextEncoder().encode(JSON.stringify({ id }))
  return new Message(data, { id, type: 'test.event', source: '/test', specversion: '1.0', ...attributes })
}

export function numbered(count: number, prefix = 'm'): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`)
}

export const never: AbortSignal = new AbortController().signal

export function open(source: Source, signal: AbortSignal = never): AsyncIterator<RawMessage> {
  return source.messages({ signal })[Symbol.asyncIterator]()
}

export async function next(iterator: AsyncIterator<RawMessage>): Promise<RawMessage> {
  const { done, value } = await iterator.next()
  if (done === true) throw new Error('The iteration has ended.')
  return value
}

export async function take(iterator: AsyncIterator<RawMessage>, count: number): Promise<RawMessage[]> {
  const messages: RawMessage[] = []
  while (messages.length < count) messages.push(await next(iterator))
  return messages
}

/** Polls until the condition holds. Each check is a round trip to the server, or a turn of the event loop. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 5))
}

export function idsOf(messages: readonly RawMessage[]): (string | undefined)[] {
  return messages.map(({ id }) => id)
}

import { InvalidOptionError } from '@ackord/core'
import { connectOrClose, evaluateBySha } from './evaluate.ts'
import {
  type DedicatedPort,
  type RedisArgument,
  type RedisCommand,
  type RedisPort,
  type Reply,
  type SendOptions,
  type ServerAddress,
  script,
} from './port.ts'
import { toReply } from './reply.ts'

/** The part of ioredis 5 and 6 that is used, including its cluster client. Nothing is imported from it. */
export interface IoredisClient {
  readonly options: {
    readonly enableAutoPipelining?: boolean | undefined
    readonly keyPrefix?: string | undefined
    readonly redisOptions?: { readonly keyPrefix?: string | undefined } | undefined
    readonly host?: string | undefined
    readonly port?: number | undefined
    readonly path?: string | null | undefined
    readonly sentinels?: readonly unknown[] | null | undefined
  }
  /** The socket of a single server. */
  readonly stream?: { readonly remoteAddress?: string | undefined; readonly remotePort?: number | undefined } | undefined
  readonly isCluster: boolean
  readonly status: string
  // biome-ignore lint/suspicious/noExplicitAny: the client's own overloads end in a callback, which a narrower type would reject.
  call(command: string, ...args: any[]): Promise<unknown>
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  callBuffer(command: string, ...args: any[]): Promise<unknown>
  // biome-ignore lint/suspicious/noExplicitAny: the cluster client takes its nodes before its options.
  duplicate(...args: any[]): IoredisClient
  connect(): Promise<unknown>
  disconnect(): void
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  on(event: 'error', listener: (error: any) => void): unknown
}

/** The client does not find the keys of these commands, neither for its prefix nor for the node of a cluster. In a script they are keys like others. */
const containers: ReadonlySet<string> = new Set(['XGROUP', 'XINFO'])
const container = script('return redis.call(ARGV[1], ARGV[2], KEYS[1], unpack(ARGV, 3))')

export function ioredisPort(client: IoredisClient): RedisPort {
  if (client.options.enableAutoPipelining === true) {
    const text = 'cannot be on: with it, callBuffer() of ioredis leaves out the name of the command. Give Ackord a client without it.'
    throw new InvalidOptionError('enableAutoPipelining', text)
  }

  // The client adds its prefix to the keys.
  async function call(name: string, args: readonly RedisArgument[], options: SendOptions | undefined): Promise<Reply> {
    // As one array, which the client flattens: spread, about 100,000 arguments overflow the stack.
    return toReply(name, options?.binary === true ? await client.callBuffer(name, args) : await client.call(name, args))
  }

  function send({ name, args }: RedisCommand, options?: SendOptions): Promise<Reply> {
    if (!containers.has(name)) return call(name, args, options)
    const [sub = '', key = '', ...others] = args
    return evaluate(container, [key], [name, sub, ...others], options)
  }

  const evaluate: RedisPort['evaluate'] = (script, keys, args, options) => evaluateBySha(send, script, keys, args, options)

  return {
    keyPrefix: client.options.keyPrefix ?? client.options.redisOptions?.keyPrefix ?? '',
    cluster: client.isCluster,
    send,
    evaluate,
    dedicate: (signal) => dedicate(client, signal),
    server: () => serverOf(client),
  }
}

function serverOf({ isCluster, options, stream }: IoredisClient): ServerAddress {
  const { host, port, path, sentinels } = options
  if (isCluster || typeof path === 'string') return {}
  // Sentinels choose the server.
  if (Array.isArray(sentinels)) return { serverAddress: stream?.remoteAddress, serverPort: stream?.remotePort }
  return { serverAddress: host, serverPort: port }
}

async function dedicate(client: IoredisClient, signal: AbortSignal | undefined): Promise<DedicatedPort> {
  signal?.throwIfAborted()
  // The duplicate is not connected yet; its first command waits for the connection.
  const patient = { enableOfflineQueue: true }
  const own = client.isCluster ? client.duplicate([], patient) : client.duplicate(patient)
  // A failed command rejects its own promise; without a listener the client prints the error.
  own.on('error', () => {})
  const close = () => own.disconnect()
  // With `lazyConnect` the client connects only when asked to.
  if (own.status === 'wait') await connectOrClose(() => own.connect(), close, signal)
  return { ...ioredisPort(own), close: async () => close() }
}

import { connectOrClose, evaluateBySha } from './evaluate.ts'
import type { DedicatedPort, RedisArgument, RedisCommand, RedisPort, Reply, SendOptions, ServerAddress } from './port.ts'
import { toReply } from './reply.ts'

/** The part of node-redis that is used. Nothing is imported from it. */
export interface NodeRedisClient {
  readonly options?: { readonly keyPrefix?: RedisArgument | undefined; readonly socket?: object | undefined } | undefined
  sendCommand(args: RedisArgument[], options?: NodeRedisCommandOptions): Promise<unknown>
  duplicate(): NodeRedisClient
  connect(): Promise<unknown>
  destroy(): void
  // biome-ignore lint/suspicious/noExplicitAny: the client's own overloads accept any listener.
  on(event: 'error', listener: (error: any) => void): unknown
}

/** The part of its cluster client that is used. */
export interface NodeRedisCluster extends Omit<NodeRedisClient, 'sendCommand' | 'duplicate' | 'options'> {
  readonly slots: readonly unknown[]
  readonly _keyPrefix?: RedisArgument | undefined
  sendCommand(
    firstKey: RedisArgument | undefined,
    isReadonly: boolean | undefined,
    args: RedisArgument[],
    options?: NodeRedisCommandOptions,
  ): Promise<unknown>
  duplicate(): NodeRedisCluster
}

interface NodeRedisCommandOptions {
  readonly typeMapping?: Readonly<Record<number, unknown>>
}

// The client's numbers for the types of RESP, which are the bytes of the protocol. The user's type mapping must not apply here, so each call passes its own.
const blobString = '$'.charCodeAt(0)
const simpleString = '+'.charCodeAt(0)
const map = '%'.charCodeAt(0)
const asText: NodeRedisCommandOptions = { typeMapping: { [map]: Map } }
const asBytes: NodeRedisCommandOptions = { typeMapping: { [map]: Map, [blobString]: Buffer, [simpleString]: Buffer } }

export function nodeRedisPort(client: NodeRedisClient | NodeRedisCluster): RedisPort {
  const cluster = isCluster(client)
  const keyPrefix = String((cluster ? client._keyPrefix : client.options?.keyPrefix) ?? '')

  /** The client adds its prefix only in its typed methods; here it must be added. */
  function wire({ name, args, keys }: RedisCommand): RedisArgument[] {
    const words: RedisArgument[] = [name, ...args]
    if (keyPrefix !== '') for (const index of keys) words[index + 1] = prefixed(args[index] as RedisArgument)
    return words
  }

  function prefixed(key: RedisArgument): RedisArgument {
    return typeof key === 'string' ? keyPrefix + key : Buffer.concat([Buffer.from(keyPrefix), key])
  }

  async function send(command: RedisCommand, options?: SendOptions): Promise<Reply> {
    const words = wire(command)
    const reading = options?.binary === true ? asBytes : asText
    if (!cluster) return toReply(command.name, await client.sendCommand(words, reading))
    const [first] = command.keys
    return toReply(command.name, await client.sendCommand(first === undefined ? undefined : words[first + 1], false, words, reading))
  }

  return {
    keyPrefix,
    cluster,
    send,
    evaluate: (script, keys, args, options) => evaluateBySha(send, script, keys, args, options),
    dedicate: (signal) => dedicate(client, signal),
    server: () => (cluster ? {} : serverOf(client)),
  }
}

function serverOf({ options }: NodeRedisClient): ServerAddress {
  // The client's type is a union of what sockets of several kinds have.
  const socket = (options?.socket ?? {}) as { readonly host?: string; readonly port?: number; readonly path?: string }
  // The defaults of the client.
  return socket.path === undefined ? { serverAddress: socket.host ?? 'localhost', serverPort: socket.port ?? 6379 } : {}
}

function isCluster(client: NodeRedisClient | NodeRedisCluster): client is NodeRedisCluster {
  return 'slots' in client
}

async function dedicate(client: NodeRedisClient | NodeRedisCluster, signal: AbortSignal | undefined): Promise<DedicatedPort> {
  signal?.throwIfAborted()
  const own = client.duplicate()
  // A failed command rejects its own promise; without a listener the client would end the process.
  own.on('error', () => {})
  const close = () => {
    try {
      own.destroy()
    } catch {
      // It was closed already, which is an error in some versions.
    }
  }
  await connectOrClose(() => own.connect(), close, signal)
  return { ...nodeRedisPort(own), close: async () => close() }
}

import { createHash } from 'node:crypto'
import { silentLogger } from '@ackord/core'
import { fromIoredis, streamOutbox, transactional } from '@ackord/redis'
import { luaOutbox } from '@ackord/redis/lua-outbox'
import { startFaultProxy } from '@ackord/testkit'
import { Redis } from 'ioredis'
import { beginScript } from '../../../packages/redis/src/inbox/inbox-leases.ts'
import { outboxFragment } from '../../../packages/redis/src/outbox/lua/scripts/commit-fragment.ts'
import { settleScript } from '../../../packages/redis/src/outbox/lua/scripts/settle.ts'
import { settleHeld } from '../../../packages/redis/src/outbox/stream/scripts/settle-scripts.ts'
import { commitScriptFor } from '../../../packages/redis/src/transaction/commit-script.ts'
import { startRedis } from '../../../scripts/servers/index.mjs'
import { ownName } from '../../../scripts/test-run.mjs'
import { consumer, eventsName } from '../names.ts'
import { type Moment, outboxStates, restart, type ServerStore, type ServerStoreKind, type ServerStoreOptions } from './store.ts'

interface RedisVariant {
  readonly mode: 'exclusive' | 'optimistic'
  readonly outbox: 'stream' | 'lua'
}

/** The scripts that are sent at each moment. Calls contain only their digests. */
const scripts: Readonly<Record<Moment, readonly string[]>> = {
  begin: [beginScript.sha],
  commit: [commitScriptFor(false, []).sha, commitScriptFor(false, [outboxFragment]).sha],
  settle: [settleHeld.sha, settleScript.sha],
}

const sharedUrl = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'

export const redisStores: readonly ServerStoreKind[] = [
  kindOf('Redis, exclusive, stream outbox', { mode: 'exclusive', outbox: 'stream' }),
  kindOf('Redis, optimistic, stream outbox', { mode: 'optimistic', outbox: 'stream' }),
  kindOf('Redis, exclusive, Lua outbox', { mode: 'exclusive', outbox: 'lua' }),
]

function kindOf(name: string, variant: RedisVariant): ServerStoreKind {
  return { name, tellsUnknownCommits: false, open: (options) => open(variant, options) }
}

async function open({ mode, outbox: kind }: RedisVariant, { own = false }: ServerStoreOptions = {}): Promise<ServerStore> {
  const server = own ? await startRedis({ args: ['--appendfsync', 'always'] }) : undefined
  const url = server?.url ?? sharedUrl
  const tag = `faults-${ownName()}`
  const proxy = await startFaultProxy(url)
  const door = quiet(new Redis(url))
  // The socket timeout is the only way to detect a half-open connection.
  const client = quiet(new Redis(proxy.url, { connectionName: tag, socketTimeout: 1500, retryStrategy: () => 20 }))
  const redis = fromIoredis(client, { logger: silentLogger, deadline: 1000 })
  const outboxOf = (of: typeof redis) => (kind === 'lua' ? luaOutbox(of, { tag }) : streamOutbox(of, { tags: [tag], claimInterval: 100 }))
  const outbox = outboxOf(redis)
  const admin = outboxOf(fromIoredis(door, { logger: silentLogger }))
  const orders = `{${tag}}:orders`

  return {
    proxy,
    recognise: (moment) => (bytes) => scripts[moment].some((sha) => bytes.includes(sha)),
    middleware: transactional(redis, {
      inbox: { consumer, tag, mode, lease: 2000 },
      transaction: { logger: silentLogger },
      outbox: { outbox, destination: eventsName },
    }),
    outbox,
    save: (id) => redis.commands().rpush(orders, id),
    async observe() {
      const states = await outboxStates(admin)
      const applied = await door.lrange(orders, 0, -1)
      return { applied, inbox: await doneIds(door, tag, applied), outbox: states }
    },
    async endConnections() {
      const list = String(await door.client('LIST')).split('\n')
      const ids = list.filter((line) => line.includes(` name=${tag} `)).map((line) => /\bid=(\d+)/.exec(line)?.[1] ?? '')
      for (const id of ids) await door.client('KILL', 'ID', id)
      return ids.length
    },
    restart: () => restart(server),
    async [Symbol.asyncDispose]() {
      proxy.judge()
      client.disconnect()
      const keys = await door.keys(`{${tag}*`)
      if (keys.length > 0) await door.del(...keys)
      door.disconnect()
      await proxy[Symbol.asyncDispose]()
      await server?.stop()
    },
  }
}

/** A marker contains only a hash of the message id, so each command is looked up. Part of the format: `{tag}:inbox:consumer:hash`. */
async function doneIds(door: Redis, tag: string, ids: readonly string[]): Promise<string[]> {
  const different = [...new Set(ids)]
  if (different.length === 0) return []
  const markers = await door.mget(
    different.map((id) => {
      const digest = createHash('sha256')
        .update(JSON.stringify(['/shop', id]))
        .digest('base64url')
      return `{${tag}}:inbox:${consumer}:${digest.slice(0, 22)}`
    }),
  )
  return different.filter((_, index) => markers[index]?.startsWith('done:') === true)
}

/** A cut connection is reported by the failing commands; without a listener the client also prints it. */
function quiet(client: Redis): Redis {
  return client.on('error', () => {})
}

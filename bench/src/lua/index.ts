import { silentLogger } from '@ackord/core'
import { fromIoredis } from '@ackord/redis'
import { type LuaOutbox, luaOutbox } from '@ackord/redis/lua-outbox'
import { Redis } from 'ioredis'
import { appendFigures } from './append.ts'
import { claimGrowth } from './claim-growth.ts'
import { relayFigures } from './relay.ts'

const url = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'

/** The Lua outbox: appending against the script alone, the relay, and the cost of a claim beside a million finished records. */
export async function lua(): Promise<Record<string, unknown>> {
  return {
    ...(await withOutbox('append', {}, appendFigures)),
    ...(await withOutbox('relay', {}, (outbox) => relayFigures(outbox))),
    ...(await withOutbox('growth', { retain: true }, (outbox) => claimGrowth(outbox))),
  }
}

/** Runs the work with a separate outbox, which is removed at the end. */
async function withOutbox<Figures>(
  name: string,
  options: { readonly retain?: boolean },
  measure: (outbox: LuaOutbox, client: Redis) => Promise<Figures>,
): Promise<Figures> {
  const client = new Redis(url)
  const tag = `bench-${name}-${process.pid}`
  try {
    return await measure(luaOutbox(fromIoredis(client, { logger: silentLogger }), { tag, ...options }), client)
  } finally {
    const left = await client.keys(`{${tag}*`)
    if (left.length > 0) await client.unlink(left)
    client.disconnect()
  }
}

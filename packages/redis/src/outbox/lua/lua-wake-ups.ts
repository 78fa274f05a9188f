import { followWakeStream, type WakeUpsOptions, wakeUps } from '../wake-ups.ts'
import type { LuaOutboxContext } from './context.ts'

/** Yields when a record was stored or re-armed. */
export function luaWakeUps(context: LuaOutboxContext, options: WakeUpsOptions): AsyncGenerator<void, void, void> {
  return wakeUps(context, context.shards.all, options, (shard, follower) => followWakeStream(shard.key('wake'), options.block, follower))
}

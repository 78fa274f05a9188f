import { followWakeStream, type WakeUpsOptions, wakeUps } from '../wake-ups.ts'
import type { LuaHome } from './context.ts'

/** Yields when something was stored or re-armed. */
export function luaWakeUps(home: LuaHome, options: WakeUpsOptions): AsyncGenerator<void, void, void> {
  return wakeUps(home, home.shards.all, options, (shard, follower) => followWakeStream(shard.key('wake'), options.block, follower))
}

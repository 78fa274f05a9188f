import { followWakeStream, type WakeUpsOptions, wakeUps } from '../wake-ups.ts'
import type { OutboxHome } from './context.ts'

/** Yields when something was stored. It follows tag by tag: those of a cluster are on several nodes. */
export function streamWakeUps(home: OutboxHome, options: WakeUpsOptions): AsyncGenerator<void, void, void> {
  return wakeUps(home, home.lanes.tags, options, (tag, follower) => followWakeStream(home.lanes.wakeKey(tag), options.block, follower))
}

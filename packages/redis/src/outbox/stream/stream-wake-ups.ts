import { followWakeStream, type WakeUpsOptions, wakeUps } from '../wake-ups.ts'
import type { StreamOutboxContext } from './context.ts'

/** Yields when a record was stored. Each tag is followed by itself: on a cluster they are on several nodes. */
export function streamWakeUps(context: StreamOutboxContext, options: WakeUpsOptions): AsyncGenerator<void, void, void> {
  return wakeUps(context, context.streams.tags, options, (tag, follower) =>
    followWakeStream(context.streams.wakeKey(tag), options.block, follower),
  )
}

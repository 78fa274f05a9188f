import { InvalidOptionError, type Logger, type Runtime } from '@ackord/core'
import type { DescribedMetrics } from '@ackord/core/internal'
import type { RedisArgument, RedisPort, Reply, SendOptions } from '../../client/port.ts'
import type { LuaShard, LuaShards } from './layout.ts'
import type { OutboxScript } from './scripts/prelude.ts'

/** Shared by the parts of a Lua outbox. */
export interface LuaOutboxContext {
  readonly port: RedisPort
  readonly shards: LuaShards
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: DescribedMetrics | undefined
  /** The maximum size of a record in bytes. */
  readonly maxSize: number
  /** Whether it has order per key. */
  readonly ordered: boolean
}

// The context of each outbox, for expiry and repair, which work on an outbox from outside.
const contexts = new WeakMap<object, LuaOutboxContext>()

export function withContext<Outbox extends object>(outbox: Outbox, context: LuaOutboxContext): Outbox {
  contexts.set(outbox, context)
  return outbox
}

export function contextOf(outbox: object): LuaOutboxContext {
  const context = contexts.get(outbox)
  if (context === undefined) throw new InvalidOptionError('outbox', 'must be the result of luaOutbox() itself, not a copy or a wrapper.')
  return context
}

/** Runs a script on the keys of a shard. */
export function runOn(
  context: LuaOutboxContext,
  shard: LuaShard,
  script: OutboxScript,
  args: readonly RedisArgument[],
  options: Pick<SendOptions, 'binary' | 'onLate'> = {},
): Promise<Reply> {
  return runWith(context, shard.keys, script, args, options)
}

/** Runs a script on the keys of a shard and other keys in its slot. */
export async function runWith(
  { port, runtime, metrics }: LuaOutboxContext,
  keys: readonly string[],
  script: OutboxScript,
  args: readonly RedisArgument[],
  options: Pick<SendOptions, 'binary' | 'onLate'> = {},
): Promise<Reply> {
  if (metrics === undefined) return await port.evaluate(script, keys, args, options)
  const onReload = () => metrics.count('ackord.outbox.script_reloads', 1, {})
  const begun = runtime.monotonic()
  try {
    return await port.evaluate(script, keys, args, { ...options, onReload })
  } finally {
    metrics.observe('ackord.outbox.script_duration', runtime.monotonic() - begun, { script: script.name })
  }
}

import { InvalidOptionError, type Logger, type Metrics, type Runtime } from '@ackord/core'
import type { RedisArgument, RedisPort, Reply, SendOptions } from '../../client/port.ts'
import type { LuaShard } from './layout.ts'
import type { LuaShards } from './lua-shards.ts'
import type { OutboxScript } from './scripts/prelude.ts'

/** What the parts of a Lua outbox share. */
export interface LuaHome {
  readonly port: RedisPort
  readonly shards: LuaShards
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: Metrics | undefined
  /** The most bytes of a record. */
  readonly maxSize: number
  /** Whether it has order per key. */
  readonly ordered: boolean
}

// Of each outbox, for what works on one from beside it: expiry, repair.
const homes = new WeakMap<object, LuaHome>()

export function withHome<Outbox extends object>(outbox: Outbox, home: LuaHome): Outbox {
  homes.set(outbox, home)
  return outbox
}

export function homeOf(outbox: object): LuaHome {
  const home = homes.get(outbox)
  if (home === undefined) throw new InvalidOptionError('outbox', 'must be what luaOutbox() gave, not a copy or a wrapper of it.')
  return home
}

/** Runs a script on the keys of a shard. */
export function runOn(
  home: LuaHome,
  shard: LuaShard,
  script: OutboxScript,
  args: readonly RedisArgument[],
  options: Pick<SendOptions, 'binary' | 'onLate'> = {},
): Promise<Reply> {
  return runWith(home, shard.keys, script, args, options)
}

/** Runs a script on the keys of a shard and others of its slot. */
export async function runWith(
  { port, runtime, metrics }: LuaHome,
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

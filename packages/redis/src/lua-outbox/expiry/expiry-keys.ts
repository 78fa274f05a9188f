import type { LuaShard } from '../layout.ts'

/**
 * What expiry keeps beside the keys of a shard, under their tag; a script has them behind those, in this order.
 *
 *     due       zset  subject, by when it expires, in milliseconds
 *     contexts  hash  subject → what its event is made of
 *     revoked   zset  subject, by when the mark ends
 *     decided   zset  'd' dueAt ' ' subject: this expiry was decided. 's' subject: it has expired. Both by when that may be forgotten
 *     parked    hash  subject → dueAt parkedAt reason
 *
 * A subject that is marked has no event that says it expired, whoever decides, and whatever was recorded again. An expiry that is decided is not decided
 * again, also when its event was published and deleted long ago.
 */
export const expiryKeyNames = ['due', 'contexts', 'revoked', 'decided', 'parked'] as const

export const expiryKeyTypes: readonly string[] = ['zset', 'hash', 'zset', 'zset', 'hash']

export type ExpiryKeyName = (typeof expiryKeyNames)[number]

export function expiryKey(shard: LuaShard, name: string, key: ExpiryKeyName): string {
  return shard.key(name, key)
}

/** Those of the shard, and behind them those of the expiry. */
export function keysWithExpiry(shard: LuaShard, name: string): readonly string[] {
  return [...shard.keys, ...expiryKeyNames.map((key) => expiryKey(shard, name, key))]
}

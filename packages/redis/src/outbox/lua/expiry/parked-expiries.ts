import type { Logger } from '@ackord/core'
import { checkCount, groupBy } from '@ackord/core/internal'
import type { Reply } from '../../../client/port.ts'
import { asList } from '../../../client/reply.ts'
import type { LuaShard } from '../layout.ts'
import type { OutboxScript } from '../scripts/prelude.ts'
import { parkedScript, unparkScript } from './scripts.ts'

export interface ParkedExpiry {
  readonly subject: string
  readonly dueAt: number
  readonly parkedAt: number
  readonly reason: string
}

/** Actions of operators on expiries that could not be decided. */
export interface ParkedExpiries {
  /** About this many at most, in no order. */
  listParked(limit: number): Promise<readonly ParkedExpiry[]>
  /** Makes them due again. Resolves to the number of expiries. */
  rearmParked(subjects: readonly string[]): Promise<number>
  /** Deletes them without an event. Resolves to the number of expiries. */
  discardParked(subjects: readonly string[], reason: string): Promise<number>
}

export interface ParkedContext {
  readonly shards: readonly LuaShard[]
  readonly logger: Logger
  readonly shardOf: (subject: string) => LuaShard
  readonly run: (shard: LuaShard, script: OutboxScript, args: readonly string[]) => Promise<Reply>
}

export function parkedExpiries({ shards, logger, shardOf, run }: ParkedContext): ParkedExpiries {
  async function unpark(subjects: readonly string[], back: '0' | '1'): Promise<number> {
    let count = 0
    for (const [shard, own] of groupBy(new Set(subjects), shardOf)) count += Number(await run(shard, unparkScript, [back, ...own]))
    return count
  }

  return {
    async listParked(limit) {
      checkCount('limit', limit)
      const found = new Map<string, ParkedExpiry>()
      for (const shard of shards) {
        for (let cursor = '0'; found.size < limit; ) {
          const [next, flat] = asList(await run(shard, parkedScript, [cursor, '100']))
          for (const one of toParked(asList(flat))) found.set(one.subject, one)
          cursor = String(next)
          if (cursor === '0') break
        }
      }
      return [...found.values()].slice(0, limit)
    },

    async rearmParked(subjects) {
      const count = await unpark(subjects, '1')
      if (count > 0) logger.info({ count, subjects }, 'Parked expiries are due again.')
      return count
    },

    async discardParked(subjects, reason) {
      const count = await unpark(subjects, '0')
      if (count > 0) logger.info({ count, subjects, reason }, 'Parked expiries were discarded.')
      return count
    },
  }
}

function toParked(flat: readonly Reply[]): ParkedExpiry[] {
  const found: ParkedExpiry[] = []
  for (let at = 0; at < flat.length; at += 2) {
    const [, dueAt, parkedAt, reason = ''] = /^(\d+) (\d+) ([\s\S]*)$/.exec(String(flat[at + 1])) ?? []
    found.push({ subject: String(flat[at]), dueAt: Number(dueAt), parkedAt: Number(parkedAt), reason })
  }
  return found
}

import type { OutboxReference } from '@ackord/outbox'
import type { RedisArgument } from '../../client/port.ts'
import { asList } from '../../client/reply.ts'
import type { RedisTransaction } from '../../transaction/transaction.ts'
import { type LuaOutboxContext, runOn } from './context.ts'
import { keyCount, type LuaShard } from './layout.ts'
import { hashDestination, recordId } from './record-body.ts'
import { cancelScript } from './scripts/cancel.ts'
import { outboxFragment } from './scripts/commit-fragment.ts'
import { getScript } from './scripts/read.ts'

const keyIndexes: readonly number[] = Array.from({ length: keyCount }, (_, index) => index)

/** How many records one script cancels: other clients wait meanwhile. */
const pageSize = 1000

/** The arguments of `ackord.cancel`. */
function cancelArguments(references: readonly OutboxReference[]): RedisArgument[] {
  const args: RedisArgument[] = [String(references.length)]
  for (const reference of references) args.push(recordId(reference), hashDestination(reference.destination))
  return args
}

/** Cancels these records when the transaction commits. */
export async function cancelInTransaction(
  context: LuaOutboxContext,
  transaction: RedisTransaction,
  references: readonly OutboxReference[],
): Promise<void> {
  for (const shard of await shardsOf(context, transaction, references)) {
    transaction.queueEvent({
      name: 'cancel()',
      args: [...shard.keys, ...cancelArguments(references)],
      keys: keyIndexes,
      kind: outboxFragment,
      onStored: (signs) => countCancelled(context, signs.split('-').length - 1),
    })
  }
}

/** Cancels these records now. Resolves to whether each was removed, in their order. */
export async function cancelDirectly(context: LuaOutboxContext, references: readonly OutboxReference[]): Promise<readonly boolean[]> {
  const removed = references.map(() => false)
  for (let start = 0; start < references.length; start += pageSize) {
    const args = cancelArguments(references.slice(start, start + pageSize))
    // The shard of a record depends on its transaction or its ordering key, which a reference does not have.
    for (const shard of context.shards.all) {
      const signs = String(await runOn(context, shard, cancelScript, args))
      for (const [index, sign] of [...signs].entries()) if (sign === '-') removed[start + index] = true
    }
  }
  countCancelled(context, removed.filter(Boolean).length)
  return removed
}

function countCancelled({ metrics }: LuaOutboxContext, count: number): void {
  if (count > 0) metrics?.count('ackord.outbox.cancelled', count, {})
}

/**
 * The shards that may have the records: the shard of the transaction's own keys, whose events are not stored yet, and those where a record is found. The transaction
 * refuses a shard in another slot, so that a record there is never silently left uncancelled.
 */
async function shardsOf(
  context: LuaOutboxContext,
  { anchor }: RedisTransaction,
  references: readonly OutboxReference[],
): Promise<readonly LuaShard[]> {
  const { all } = context.shards
  if (all.length === 1) return all
  const ids = references.map(recordId)
  const found = new Set<LuaShard>()
  const own = anchor === undefined ? undefined : context.shards.beside(anchor)
  if (own !== undefined) found.add(own)
  for (const shard of all) {
    if (shard === own) continue
    const [, ...rows] = asList(await runOn(context, shard, getScript, ids, { binary: true }))
    if (rows.some((row) => isStored(asList(row)[1]))) found.add(shard)
  }
  return [...found]
}

function isStored(state: unknown): boolean {
  return state !== null && state !== undefined && state !== false
}

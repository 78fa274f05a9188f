import type { LuaOutbox } from '@ackord/redis/lua-outbox'
import { newRecords } from './records.ts'

const few = 1000
const many = 1_000_000
const batch = 1000
const limit = 100
const lease = 30_000

/** The cost of a claim of 100 beside a million published or parked records, relative to the cost beside a thousand. */
export async function claimGrowth(outbox: LuaOutbox): Promise<Record<string, number>> {
  await finish(outbox, few)
  await outbox.enqueue(newRecords(2 * limit))
  const before = await claimTime(outbox)
  await settleAll(outbox)
  await finish(outbox, many - few)
  await outbox.enqueue(newRecords(2 * limit))
  const after = await claimTime(outbox)
  return { claim_growth: Math.round((after / before - 1) * 100) / 100 }
}

/** Publishes half of the records and parks the other half. */
async function finish(outbox: LuaOutbox, count: number): Promise<void> {
  for (let done = 0; done < count; ) {
    const size = Math.min(batch, count - done)
    await outbox.enqueue(newRecords(size))
    done += await settleAll(outbox)
  }
}

/** Resolves to the number of settled records. */
async function settleAll(outbox: LuaOutbox): Promise<number> {
  let settled = 0
  for (;;) {
    const claimed = await outbox.claim({ limit: batch, lease })
    if (claimed.length === 0) return settled
    await outbox.settle(
      claimed.map(({ id, token }, index) =>
        index % 2 === 0 ? { id, token, result: 'published' } : { id, token, result: 'parked', error: 'for the benchmark' },
      ),
    )
    settled += claimed.length
  }
}

/** The median of many claims, in milliseconds. */
async function claimTime(outbox: LuaOutbox): Promise<number> {
  const times: number[] = []
  for (let round = 0; round < 400; round += 1) {
    const start = process.hrtime.bigint()
    const claimed = await outbox.claim({ limit, lease })
    times.push(Number(process.hrtime.bigint() - start) / 1e6)
    if (claimed.length !== limit) throw new Error(`Expected ${limit} claimed records, got ${claimed.length}.`)
    await outbox.release(claimed)
  }
  return times.sort((one, other) => one - other)[times.length / 2] ?? 0
}

import { type Rounds, runRounds } from '../rounds.ts'
import { openWorld, type RelayWorld, relayRate } from './world.ts'

const backlog = 1_000_000
const perKey = { order: 'perKey' } as const

/** The part of the throughput that a million other records in the table cost, by round. */
export interface BacklogSlowdowns {
  /** Half of them parked, half published and kept. */
  readonly finished: readonly number[]
  /** All of them waiting to be published. */
  readonly pending: readonly number[]
}

/** Each table keeps its records through all rounds, so that a table without a backlog can take turns with one that has it. */
export async function backlogSlowdowns(rounds: { readonly rounds: number; readonly count: number }): Promise<BacklogSlowdowns> {
  await using empty = await openWorld()
  await using finished = await openWorld()
  await using pending = await openWorld()
  await fillFinished(finished)
  // Each round relays some of them, the warm-up too.
  await pending.fill(backlog + (rounds.rounds + 1) * rounds.count, perKey)
  const rates = await runRounds(
    {
      empty: (count) => relayNew(empty, count),
      finished: (count) => relayNew(finished, count),
      pending: (count) => relaySome(pending, count),
    },
    rounds,
  )
  return { finished: slowdowns(rates, 'finished'), pending: slowdowns(rates, 'pending') }
}

async function fillFinished({ pool }: RelayWorld): Promise<void> {
  for (const [state, instant] of [
    ['parked', 'parked_at'],
    ['published', 'published_at'],
  ]) {
    await pool.query(
      `INSERT INTO ackord_outbox (state, destination, id, type, partition, data, attributes, available_at, ${instant})
SELECT '${state}', 'order-events', 'old-' || n, 'order.placed', n % 256, '\\x00', '{}', clock_timestamp(), clock_timestamp()
FROM generate_series(1, ${backlog / 2}) AS n`,
    )
  }
}

async function relayNew(world: RelayWorld, count: number): Promise<number> {
  await world.fill(count, perKey)
  return await relayRate([world.outbox(perKey)], count)
}

async function relaySome(world: RelayWorld, count: number): Promise<number> {
  await world.pool.query('VACUUM ANALYZE ackord_outbox')
  return await relayRate([world.outbox(perKey)], count)
}

function slowdowns(rates: Rounds<'empty' | 'finished' | 'pending'>, variant: 'finished' | 'pending'): readonly number[] {
  return rates.ratios(variant, 'empty').map((ratio) => 1 - ratio)
}

import type { Runtime } from '@ackord/core'
import type { ChosenRecords, OutboxAdmin, OutboxFilter, OutboxState } from '@ackord/outbox'
import type { Action } from '../api/action-request.ts'
import type { Preview } from '../api/types.ts'
import { searchPages } from './search-pages.ts'

/** Where counting stops. */
const maxCount = 10_000
/** Records of one call of `list`. */
export const pageSize = 500
/** Calls of `get` at the same time: an application needs its connections itself. */
const concurrency = 4

/** How many records the action would change now. For a pause: how many it holds back. */
export async function previewAction(admin: OutboxAdmin, action: Action, runtime: Runtime): Promise<Preview> {
  switch (action.action) {
    case 'rearm':
      return await countChosen(admin, action.which, [action.state], runtime)
    case 'discard':
      return await countChosen(admin, action.which, ['parked'], runtime)
    case 'cancel':
      return await countChosen(admin, action.which, ['waiting'], runtime)
    case 'park':
      return await countChosen(admin, action.which, ['ready', 'waiting'], runtime)
    default:
      return await countByStats(admin, action.destination, ['ready', 'waiting'])
  }
}

async function countChosen(admin: OutboxAdmin, which: ChosenRecords, states: readonly OutboxState[], runtime: Runtime): Promise<Preview> {
  if ('filter' in which) return await countMatching(admin, which.filter, runtime)
  const ids = [...which.ids]
  let count = 0
  const countSome = async () => {
    for (let id = ids.pop(); id !== undefined; id = ids.pop()) {
      const record = await admin.get(id)
      if (record !== undefined && states.includes(record.state)) count += 1
    }
  }
  await Promise.all(Array.from({ length: concurrency }, countSome))
  return { count, capped: false }
}

/** With one call where possible: `stats` and `groups` do not return whole records. */
export async function countMatching(admin: OutboxAdmin, filter: OutboxFilter, runtime: Runtime): Promise<Preview> {
  const { state, destination, ...others } = filter
  // Some stores count delayed records as ready that no relay has read yet.
  if (state !== undefined && state !== 'waiting' && Object.keys(others).length === 0) return await countByStats(admin, destination, [state])
  if (state === 'parked' && admin.groups !== undefined) {
    const { groups, complete } = await admin.groups('destination', filter)
    const count = groups.reduce((sum, group) => sum + group.count, 0)
    if (complete || count >= maxCount) return { count: Math.min(count, maxCount), capped: count >= maxCount }
  }
  let count = 0
  let capped = false
  for await (const { records, next } of searchPages(admin, filter, { limit: pageSize, runtime })) {
    count += records.length
    capped = next !== undefined
    if (count >= maxCount) break
  }
  return { count, capped }
}

async function countByStats(admin: OutboxAdmin, destination: string | undefined, states: readonly OutboxState[]): Promise<Preview> {
  const { destinations } = await admin.stats({ limit: maxCount })
  let count = 0
  for (const each of destinations)
    if (destination === undefined || destination === each.destination) for (const state of states) count += each[state]
  return { count: Math.min(count, maxCount), capped: count >= maxCount }
}

import type { ChosenRecords, OutboxAdmin, OutboxFilter, OutboxState } from '@ackord/outbox'
import type { Action } from '../api/action-request.ts'
import type { Preview } from '../api/types.ts'

/** Where counting stops. */
const maxCount = 10_000
/** Records of one call of `list`. */
export const pageSize = 500
/** Calls of `get` at the same time: an application needs its connections itself. */
const concurrency = 4

/** How many records the action would change now. For a pause: how many it holds back. */
export async function previewAction(admin: OutboxAdmin, action: Action): Promise<Preview> {
  switch (action.action) {
    case 'rearm':
      return await countChosen(admin, action.which, [action.state])
    case 'discard':
      return await countChosen(admin, action.which, ['parked'])
    case 'park':
      return await countChosen(admin, action.which, ['ready', 'waiting'])
    default:
      return await countByStats(admin, action.destination, ['ready', 'waiting'])
  }
}

async function countChosen(admin: OutboxAdmin, which: ChosenRecords, states: readonly OutboxState[]): Promise<Preview> {
  if ('filter' in which) return await countMatching(admin, which.filter)
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
export async function countMatching(admin: OutboxAdmin, filter: OutboxFilter): Promise<Preview> {
  const { state, destination, ...others } = filter
  if (state !== undefined && Object.keys(others).length === 0) return await countByStats(admin, destination, [state])
  if (state === 'parked' && admin.groups !== undefined) {
    const { groups, complete } = await admin.groups('destination', filter)
    const count = groups.reduce((sum, group) => sum + group.count, 0)
    if (complete || count >= maxCount) return { count: Math.min(count, maxCount), capped: count >= maxCount }
  }
  let count = 0
  let after: string | undefined
  do {
    const page = await admin.list(filter, { limit: pageSize, after, payloads: false })
    count += page.records.length
    after = page.next
  } while (after !== undefined && count < maxCount)
  return { count, capped: after !== undefined }
}

async function countByStats(admin: OutboxAdmin, destination: string | undefined, states: readonly OutboxState[]): Promise<Preview> {
  const { destinations } = await admin.stats({ limit: maxCount })
  let count = 0
  for (const each of destinations)
    if (destination === undefined || destination === each.destination) for (const state of states) count += each[state]
  return { count: Math.min(count, maxCount), capped: count >= maxCount }
}

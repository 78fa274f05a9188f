import type { Runtime } from '@ackord/core'
import type { ChosenRecords, OutboxAdmin } from '@ackord/outbox'
import type { Action } from '../api/action-request.ts'
import { conflict } from '../http/api-failure.ts'
import { countMatching, pageSize } from './count-records.ts'
import type { JobProgress } from './jobs.ts'

/** Throws if the store cannot do it, before anything is started. */
export function checkSupported(admin: OutboxAdmin, { action }: Action, store: string): void {
  if ((action !== 'pause' && action !== 'resume') || typeof admin[action] === 'function') return
  throw conflict('unsupported', `The store ${store} does not implement ${action}().`)
}

/** Carries out an action as the work of a job. */
export async function runAction(
  admin: OutboxAdmin,
  action: Action,
  by: string,
  { progress, runtime }: { readonly progress: JobProgress; readonly runtime: Runtime },
): Promise<void> {
  const { reason } = action
  const change = (which: ChosenRecords, changeIds: (ids: readonly string[]) => Promise<number>) =>
    changeRecords(admin, which, { progress, runtime, changeIds })
  switch (action.action) {
    case 'rearm': {
      const { which, edit, state } = action
      return await change(which, (ids) => admin.rearm({ ids }, edit, { state, by, reason }))
    }
    case 'discard':
      return await change(action.which, (ids) => admin.discard(ids, reason, { by }))
    case 'park':
      return await change(action.which, (ids) => admin.park(ids, reason, { by }))
    case 'pause':
      await admin.pause?.(action.destination, { duration: action.duration, by, reason })
      progress.count = 1
      return
    case 'resume':
      progress.count = (await admin.resume?.(action.destination, { by, reason })) === true ? 1 : 0
  }
}

async function changeRecords(
  admin: OutboxAdmin,
  which: ChosenRecords,
  {
    progress,
    runtime,
    changeIds,
  }: { readonly progress: JobProgress; readonly runtime: Runtime; readonly changeIds: (ids: readonly string[]) => Promise<number> },
): Promise<void> {
  if ('ids' in which) {
    progress.total = which.ids.length
    progress.count = await changeIds(which.ids)
    return
  }
  const { count, capped } = await countMatching(admin, which.filter, runtime)
  progress.total = capped ? undefined : count
  let after: string | undefined
  do {
    const page = await admin.list(which.filter, { limit: pageSize, after, payloads: false })
    if (progress.signal.aborted) return
    if (page.records.length > 0) progress.count += await changeIds(page.records.map(({ id }) => id))
    after = page.next
  } while (after !== undefined)
}

/** What the action was done to, for people: the filter, a destination, or the first ids. */
export function describeAction(action: Action): string {
  if (!('which' in action)) return action.destination
  return 'filter' in action.which ? JSON.stringify(action.which.filter) : describeIds(action.which.ids)
}

export function describeIds(ids: readonly string[]): string {
  return ids.length <= 5 ? ids.join(', ') : `${ids.slice(0, 5).join(', ')} and ${ids.length - 5} more`
}

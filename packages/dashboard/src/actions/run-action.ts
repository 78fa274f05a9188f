import type { Runtime } from '@ackord/core'
import type { AuditedSteps, OutboxAdmin, OutboxEdit, OutboxFilter, OutboxRecord } from '@ackord/outbox'
import type { Action } from '../api/action-request.ts'
import { conflict } from '../http/api-failure.ts'
import { countMatching, pageSize } from './count-records.ts'
import type { JobProgress } from './jobs.ts'

/** Throws if the store cannot do it, before anything is started. */
export function checkSupported(admin: OutboxAdmin, { action }: Action, store: string): void {
  const part = action === 'cancel' ? 'cancelWaiting' : action
  if ((part !== 'pause' && part !== 'resume' && part !== 'cancelWaiting') || typeof admin[part] === 'function') return
  throw conflict('unsupported', `The store ${store} does not implement ${part}().`)
}

interface RunOptions {
  readonly progress: JobProgress
  readonly runtime: Runtime
  /** Called with each record that a filter selects, before the step that changes it; the action ends if it throws. Default: none. */
  readonly check?: ((record: OutboxRecord) => void) | undefined
  /** Whether `check` looks at payloads. Default: false. */
  readonly payloads?: boolean | undefined
}

/** Carries out an action as the work of a job. */
export async function runAction(admin: OutboxAdmin, action: Action, by: string, options: RunOptions): Promise<void> {
  const { progress } = options
  const { reason } = action
  switch (action.action) {
    case 'pause':
      await admin.pause?.(action.destination, { duration: action.duration, by, reason })
      progress.count = 1
      return
    case 'resume':
      progress.count = (await admin.resume?.(action.destination, { by, reason })) === true ? 1 : 0
      return
    default:
      return await changeRecords(admin, action, by, options)
  }
}

/** Records of a step that reads payloads, each of which may have megabytes. */
const pageSizeWithPayloads = 50

type Change = Exclude<Action, { readonly destination: string }>

async function changeRecords(
  admin: OutboxAdmin,
  action: Change,
  by: string,
  { progress, runtime, check, payloads = false }: RunOptions,
): Promise<void> {
  const { which } = action
  if ('ids' in which) {
    progress.total = which.ids.length
    progress.count = await changeIds(admin, which.ids, action, by)
    return
  }
  const { filter, previewAge } = which
  const readsPayloads = payloads && check !== undefined
  const startedAt = runtime.monotonic()
  const { count, capped } = await countMatching(admin, filter, runtime)
  progress.total = capped ? undefined : count

  async function changeMatching(steps: OutboxAdmin | AuditedSteps): Promise<number> {
    let after: string | undefined
    do {
      const previewed = asPreviewed(filter, previewAge + runtime.monotonic() - startedAt)
      const page = await admin.list(previewed, { limit: readsPayloads ? pageSizeWithPayloads : pageSize, after, payloads: readsPayloads })
      if (progress.signal.aborted) break
      if (check !== undefined) for (const record of page.records) check(record)
      const ids = page.records.map(({ id }) => id)
      if (ids.length > 0) progress.count += await changeIds(steps, ids, action, by)
      after = page.next
    } while (after !== undefined)
    return progress.count
  }

  // One entry for all steps. A store without audited() may write one for each.
  if (admin.audited === undefined) await changeMatching(admin)
  else await admin.audited({ action: action.action, what: describeAction(action), by, reason: action.reason }, changeMatching)
}

/**
 * The records that a filter has selected `age` milliseconds ago, without those that were stored or parked since then: the user has not seen them in the preview. Such an action
 * also ends if its records are parked again at once.
 */
function asPreviewed(filter: OutboxFilter, age: number): OutboxFilter {
  const { state, minAge, maxAge } = filter
  // Rounded down: a store may keep times in whole milliseconds.
  const since = Math.floor(age)
  return {
    ...filter,
    // A record that was parked before the preview was also stored before it. Without an age, more stores find the records with an index.
    minAge: state === 'parked' && minAge === undefined ? undefined : (minAge ?? 0) + since,
    maxAge: maxAge === undefined ? undefined : maxAge + since,
    minParkedAge: state === 'parked' ? since : undefined,
  }
}

async function changeIds(store: OutboxAdmin | AuditedSteps, ids: readonly string[], action: Change, by: string): Promise<number> {
  const { reason } = action
  switch (action.action) {
    case 'rearm':
      return await store.rearm({ ids }, editOf(action), { state: action.state, by, reason })
    case 'discard':
      return await store.discard(ids, reason, { by })
    case 'cancel':
      return (await store.cancelWaiting?.(ids, reason, { by })) ?? 0
    case 'park':
      return await store.park(ids, reason, { by })
  }
}

/** What is published a second time says so, as in a replay. */
function editOf({ state, edit }: Change & { readonly action: 'rearm' }): OutboxEdit | undefined {
  return state === 'published' ? { ...edit, attributes: { ...edit?.attributes, replayed: true } } : edit
}

/** The target of the action, as text for people: the filter, a destination, or the first ids. */
export function describeAction(action: Action): string {
  if (!('which' in action)) return action.destination
  return 'filter' in action.which ? JSON.stringify(action.which.filter) : describeIds(action.which.ids)
}

export function describeIds(ids: readonly string[]): string {
  return ids.length <= 5 ? ids.join(', ') : `${ids.slice(0, 5).join(', ')} and ${ids.length - 5} more`
}

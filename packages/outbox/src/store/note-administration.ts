import { isAckordError, type Runtime, toError } from '@ackord/core'
import { checkCount, checkDuration, checkName, messageOf } from '@ackord/core/internal'
import type { Note, NoteQuery, OutboxNotes } from './notes.ts'
import type {
  AuditEntry,
  AuditedSteps,
  DestinationPause,
  Operator,
  OutboxAdmin,
  OutboxFilter,
  OutboxGroup,
  OutboxListOptions,
  OutboxPage,
  OutboxRate,
  OutboxRecord,
  OutboxState,
  RelayReport,
} from './outbox-admin.ts'

/** The methods that each store implements itself. `groups`: only where it can count without reading whole records. */
export type BaseAdministration = Pick<OutboxAdmin, 'list' | 'get' | 'rearm' | 'park' | 'deletePublished' | 'stats'> &
  Pick<Required<OutboxAdmin>, 'history'> &
  Pick<OutboxAdmin, 'groups'> & {
    discard(ids: readonly string[], reason: string): Promise<number>
    /** Checks the state in the same step: a record that has become due since it was listed is not deleted. */
    cancelWaiting(ids: readonly string[], reason: string): Promise<number>
  }

export type CompleteAdministration = Required<OutboxAdmin>

const second = 1000
const day = 24 * 60 * 60 * second
/** How long a relay counts as alive after its last report. Relays report every 10 seconds. */
export const relayLifetime: number = 30 * second
export const rateLifetime: number = day
const auditLifetime = 90 * day
/** A pause stays until it is resumed or its time is over. */
const pauseLifetime = 100 * 365 * day
const maxNotes = 10_000
const maxFound = 1000
/** How many records `groups()` reads where the store has no statement for it, and how many a step of a long action changes. */
const stepSize = 500
const maxGrouped = 2000
const maxWhat = 500

/** The operators' side of a store, completed: the audit, and everything that notes are enough for. */
export function completeAdministration(
  base: BaseAdministration,
  { notes, runtime }: { readonly notes: OutboxNotes; readonly runtime: Runtime },
): CompleteAdministration {
  /** Writes the entry before the action, so that an action whose process ends is in the audit too, and again with its result. */
  async function audited<R extends number | boolean | void>(
    entry: Pick<AuditEntry, 'action' | 'what'> & Operator,
    work: (steps: AuditedSteps) => Promise<R>,
  ): Promise<R> {
    let changed: number | undefined
    const counting = async (step: Promise<number>): Promise<number> => {
      const count = await step
      changed = (changed ?? 0) + count
      return count
    }
    const steps: AuditedSteps = {
      rearm: (which, edit, options) => counting(base.rearm(which, edit, options)),
      park: (ids, reason) => counting(base.park(ids, reason)),
      discard: (ids, reason) => counting(base.discard(ids, reason)),
      cancelWaiting: (ids, reason) => counting(base.cancelWaiting(ids, reason)),
    }
    const name = runtime.uuid()
    const { action, what, by, reason } = entry
    const write = (result: { readonly count?: number; readonly error?: string }) =>
      notes.put(
        'audit',
        [{ name, value: JSON.stringify({ action, what: what.slice(0, maxWhat), by, reason: reason?.slice(0, maxWhat), ...result }) }],
        auditLifetime,
      )
    // Tables of an older version have no audit; the log has the action then.
    await write({}).catch((error: unknown) => {
      if (!isAckordError(error, 'ACKORD_SCHEMA')) throw error
    })
    try {
      const result = await work(steps)
      // The action is done: that its entry cannot be completed must not make it look as if it had failed.
      await write({ count: Number(result ?? 1) }).catch(() => {})
      return result
    } catch (error) {
      const text = messageOf(toError(error)).slice(0, maxWhat)
      await write({ ...(changed !== undefined && { count: changed }), error: text }).catch(() => {})
      throw error
    }
  }

  /** In steps, so that no statement locks everything. */
  async function deleteMatching(filter: OutboxFilter, deleteSome: (ids: readonly string[]) => Promise<number>): Promise<number> {
    let count = 0
    let after: string | undefined
    do {
      const page = await base.list(filter, { limit: stepSize, after, payloads: false })
      const ids = page.records.map(({ id }) => id)
      if (ids.length > 0) count += await deleteSome(ids)
      after = page.next
    } while (after !== undefined)
    return count
  }

  /** Deletes records that are in this state, as one entry of the audit. A filter for another state selects none of them. */
  function deleteChosen(
    entry: Pick<AuditEntry, 'action'> & Operator,
    which: readonly string[] | { readonly filter: OutboxFilter },
    state: OutboxState,
    deleteSome: (ids: readonly string[]) => Promise<number>,
  ): Promise<number> {
    const chosen = Array.isArray(which) ? { ids: which as readonly string[] } : (which as { readonly filter: OutboxFilter })
    return audited({ ...entry, what: describe(chosen) }, async () => {
      if ('ids' in chosen) return await deleteSome(chosen.ids)
      const { filter } = chosen
      if (filter.state !== undefined && filter.state !== state) return 0
      return await deleteMatching({ ...filter, state }, deleteSome)
    })
  }

  /** A store need not know the option `payloads`: one that reads them anyway has them removed here. */
  async function list(filter: OutboxFilter, page: OutboxListOptions): Promise<OutboxPage> {
    const found = await base.list(filter, page)
    return page.payloads === false ? { ...found, records: found.records.map(withoutPayload) } : found
  }

  return {
    ...base,

    list,

    rearm: (which, edit, options = {}) =>
      audited({ action: 'rearm', what: describe(which), by: options.by, reason: options.reason }, () => base.rearm(which, edit, options)),

    park: (ids, reason, { by } = {}) => audited({ action: 'park', what: describe({ ids }), by, reason }, () => base.park(ids, reason)),

    discard: (which, reason, { by } = {}) =>
      deleteChosen({ action: 'discard', by, reason }, which, 'parked', (ids) => base.discard(ids, reason)),

    cancelWaiting: (which, reason, { by } = {}) =>
      deleteChosen({ action: 'cancel', by, reason }, which, 'waiting', (ids) => base.cancelWaiting(ids, reason)),

    async find({ messageId }) {
      const found: OutboxRecord[] = []
      let after: string | undefined
      do {
        const page = await base.list({ messageId }, { limit: maxFound - found.length, after })
        found.push(...page.records)
        after = page.next
      } while (after !== undefined && found.length < maxFound)
      return found
    },

    async groups(by, filter = {}) {
      if (base.groups !== undefined) return await base.groups(by, filter)
      const groups = new Map<string, Mutable<OutboxGroup>>()
      let complete = true
      for (const state of ['parked', 'waiting'] as const) {
        if (filter.state !== undefined && filter.state !== state) continue
        let after: string | undefined
        let count = 0
        do {
          const page = await base.list({ ...filter, state }, { limit: stepSize, after, payloads: false })
          for (const record of page.records) addToGroup(groups, by, record)
          count += page.records.length
          after = page.next
        } while (after !== undefined && count < maxGrouped)
        complete &&= after === undefined
      }
      return { groups: [...groups.values()].sort((one, other) => other.count - one.count), complete }
    },

    async pause(destination, { duration, by, reason } = {}) {
      checkName('destination', destination)
      if (duration !== undefined) checkDuration('duration', duration, { min: 1 })
      await audited({ action: 'pause', what: destination, by, reason }, () =>
        notes.put('pause', [{ name: destination, value: JSON.stringify({ duration, by, reason }) }], pauseLifetime),
      )
    },

    async resume(destination, { by, reason } = {}) {
      checkName('destination', destination)
      return await audited({ action: 'resume', what: destination, by, reason }, () => notes.delete('pause', destination))
    },

    pauses: () => readPauses(notes),

    relays: async () => relaysOf(await notes.read('relay', relayQuery)),

    rates: async ({ maxAge }) => ratesOf(await notes.read('rate', rateQuery(maxAge))),

    async activity({ maxAge }) {
      const queries: readonly NoteQuery[] = [
        { kind: 'pause', ...pauseQuery },
        { kind: 'relay', ...relayQuery },
        { kind: 'rate', ...rateQuery(maxAge) },
      ]
      const [pauses = [], relays = [], rates = []] =
        notes.readEach === undefined
          ? await Promise.all(queries.map(({ kind, ...query }) => notes.read(kind, query)))
          : await notes.readEach(queries)
      return { pauses: pausesOf(pauses), relays: relaysOf(relays), rates: ratesOf(rates) }
    },

    audited,

    async audit({ limit }) {
      checkCount('limit', limit)
      const found = await notes.read('audit', { limit: Math.min(limit, maxNotes), maxAge: auditLifetime })
      return found.flatMap(({ name, value, at }) => {
        const entry = parsed<Omit<AuditEntry, 'id' | 'at'>>(value)
        return entry === undefined ? [] : [{ ...entry, id: name, at }]
      })
    },
  }
}

const pauseQuery = { limit: maxNotes }
const relayQuery = { limit: maxNotes, maxAge: relayLifetime }

function rateQuery(maxAge: number): Omit<NoteQuery, 'kind'> {
  checkDuration('maxAge', maxAge, { min: 1 })
  return { limit: maxNotes, maxAge: Math.min(maxAge, rateLifetime) }
}

/** The pauses that are not over, by destination. */
export async function readPauses(notes: OutboxNotes): Promise<readonly DestinationPause[]> {
  return pausesOf(await notes.read('pause', pauseQuery))
}

function relaysOf(notes: readonly Note[]): readonly RelayReport[] {
  return notes.flatMap(({ name, value, age }) => {
    const report = parsed<Omit<RelayReport, 'id' | 'age'>>(value)
    return report === undefined ? [] : [{ ...report, id: name, age }]
  })
}

function ratesOf(notes: readonly Note[]): readonly OutboxRate[] {
  return notes.flatMap(({ value, at }) => {
    const rate = parsed<Omit<OutboxRate, 'at'>>(value)
    return rate === undefined ? [] : [{ ...rate, at }]
  })
}

function pausesOf(notes: readonly Note[]): readonly DestinationPause[] {
  return notes.flatMap(({ name: destination, value, at, age }) => {
    const { duration, by, reason } = parsed<{ readonly duration?: number } & Operator>(value) ?? {}
    if (duration !== undefined && age >= duration) return []
    return [{ destination, since: at, until: duration === undefined ? undefined : at + duration, by, reason }]
  })
}

const noBytes = new Uint8Array()

function withoutPayload(record: OutboxRecord): OutboxRecord {
  return record.message.data.byteLength === 0 ? record : { ...record, message: record.message.copy(noBytes) }
}

function addToGroup(groups: Map<string, Mutable<OutboxGroup>>, by: 'failure' | 'type' | 'destination', record: OutboxRecord): void {
  const name = by === 'failure' ? record.cause : by === 'type' ? record.message.type : record.destination
  if (name === undefined) return
  const { createdAt } = record
  const group = groups.get(name) ?? { name, count: 0, first: createdAt, last: createdAt }
  groups.set(name, group)
  group.count += 1
  group.first = Math.min(group.first, createdAt)
  group.last = Math.max(group.last, createdAt)
}

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] }

/** Of many ids the first, and how many there are. */
function describe(which: { readonly ids: readonly string[] } | { readonly filter: OutboxFilter }): string {
  if ('filter' in which) return JSON.stringify(which.filter)
  const { ids } = which
  return ids.length <= 5 ? ids.join(', ') : `${ids.slice(0, 5).join(', ')} and ${ids.length - 5} more`
}

/** `undefined` for a value that a newer version wrote in another form. */
function parsed<T>(value: string): T | undefined {
  try {
    const found: unknown = JSON.parse(value)
    return typeof found === 'object' && found !== null ? (found as T) : undefined
  } catch {
    return undefined
  }
}

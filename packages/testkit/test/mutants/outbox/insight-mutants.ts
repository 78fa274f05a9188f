import { MemoryOutboxStore, type OutboxAdmin, type OutboxFilter, type OutboxNotes, type Outcome } from '@ackord/outbox'
import type { OpenOutboxWorld } from '../../../src/suites/outbox/outbox-world.ts'
import type { Mutant } from '../../support/mutant.ts'
import { brokenOutbox, type Decorate, type Outbox, overriding } from './decorated-outbox.ts'

/** Outcomes are changed before they are applied. */
function settling(change: (outcome: Outcome) => Outcome): Decorate {
  return overriding((store) => ({ settle: (outcomes) => store.settle(outcomes.map(change)) }))
}

function withoutCause(outcome: Outcome): Outcome {
  return outcome.result === 'published' ? outcome : { ...outcome, cause: undefined }
}

/** The filter is changed before it is used. */
function filtering(change: (filter: OutboxFilter) => OutboxFilter): Decorate {
  return overriding((store) => ({
    list: (filter, page) => store.list(change(filter), page),
    rearm: (which, edit, options) => store.rearm('filter' in which ? { filter: change(which.filter) } : which, edit, options),
  }))
}

/** Pauses, relays and the audit are kept in each store object. */
function forgetting(kind: 'pause' | 'audit'): Decorate {
  return overriding(() => {
    const own: Required<OutboxAdmin> = new MemoryOutboxStore()
    return kind === 'pause'
      ? { pause: (...given) => own.pause(...given), resume: (...given) => own.resume(...given), pauses: () => own.pauses() }
      : { audit: (options) => own.audit(options) }
  })
}

function noting(change: (notes: OutboxNotes) => Partial<OutboxNotes>): Decorate {
  return overriding((store) => {
    const notes = store.notes as OutboxNotes
    return {
      notes: {
        put: (...given) => notes.put(...given),
        read: (...given) => notes.read(...given),
        delete: (...given) => notes.delete(...given),
        ...change(notes),
      },
    }
  })
}

function complete(store: Outbox): Outbox & Required<OutboxAdmin> {
  return store as Outbox & Required<OutboxAdmin>
}

export const insightMutants: readonly Mutant<OpenOutboxWorld>[] = [
  ...brokenOutbox('the cause of the last failure is kept, and selects records', {
    'the cause is not stored': settling(withoutCause),
    'the cause is the error': settling((outcome) => (outcome.result === 'published' ? outcome : { ...outcome, cause: outcome.error })),
    'a filter by cause is ignored': filtering(({ cause: _, ...filter }) => filter),
    'a filter by error is ignored': filtering(({ error: _, ...filter }) => filter),
  }),
  ...brokenOutbox('records are selected by their age', {
    'the least age is ignored': filtering(({ minAge: _, ...filter }) => filter),
    'the greatest age is ignored': filtering(({ maxAge: _, ...filter }) => filter),
  }),
  ...brokenOutbox('parked records are selected by the time since they were parked', {
    'the time is ignored': filtering(({ minParkedAge: _, ...filter }) => filter),
    'the time since they were stored counts': filtering(({ minParkedAge, ...filter }) =>
      minParkedAge === undefined ? filter : { ...filter, state: 'parked', minAge: minParkedAge },
    ),
  }),
  ...brokenOutbox('the history of a record has its last ten errors with their times, the latest first', {
    'only the last error is kept': overriding((store) => ({ history: async (id) => (await complete(store).history(id)).slice(0, 1) })),
    'the oldest is first': overriding((store) => ({ history: async (id) => (await complete(store).history(id)).toReversed() })),
  }),
  ...brokenOutbox('find returns the records of a message id in every state', {
    'parked records are not found': overriding((store) => ({
      find: async (which) => (await complete(store).find(which)).filter(({ state }) => state !== 'parked'),
    })),
    'every record is found': overriding((store) => ({ find: async () => (await store.list({}, { limit: 100 })).records })),
  }),
  ...brokenOutbox('find returns an edited record by its new message id, and no longer by the old one', {
    'an edited record is found by its old message id only': overriding((store) => {
      const stored = new Map<string, string>()
      return {
        async rearm(which, edit, options) {
          for (const { id, message } of (await store.list({}, { limit: 100 })).records) stored.set(id, message.id ?? '')
          return await store.rearm(which, edit, options)
        },
        find: async ({ messageId }) =>
          (await store.list({}, { limit: 100 })).records.filter(({ id, message }) => (stored.get(id) ?? message.id) === messageId),
      }
    }),
    'a published record is found': overriding((store) => {
      const found = new Map<string, Awaited<ReturnType<Required<OutboxAdmin>['find']>>>()
      return {
        async find({ messageId }) {
          const now = await complete(store).find({ messageId })
          if (now.length > 0) found.set(messageId, now)
          return found.get(messageId) ?? now
        },
      }
    }),
  }),
  ...brokenOutbox('groups count parked and waiting records by cause, type and destination', {
    'waiting records are not counted': overriding((store) => ({
      groups: (by, filter) => complete(store).groups(by, { ...filter, state: 'parked' }),
    })),
    'the filter is ignored': overriding((store) => ({ groups: (by) => complete(store).groups(by) })),
    'the groups are always those of the destinations': overriding((store) => ({
      groups: (_, filter) => complete(store).groups('destination', filter),
    })),
  }),
  ...brokenOutbox('stats with a limit count no further, and say so', {
    'the numbers are cut without saying so': overriding((store) => ({
      stats: async (options) => {
        const { destinations, ...rest } = await store.stats(options)
        return { ...rest, destinations: destinations.map(({ capped: _, ...one }) => one) }
      },
    })),
    'any limit is accepted': overriding((store) => ({ stats: async () => await store.stats() })),
  }),
  ...brokenOutbox('a pause is seen by all store objects, ends by itself or by resume, and changes no record', {
    'a pause is kept in memory': forgetting('pause'),
    'a pause never ends': overriding((store) => ({
      pause: (destination, { duration: _, ...options } = {}) => complete(store).pause(destination, options),
    })),
    'resume does nothing': overriding(() => ({ resume: async () => true })),
  }),
  ...brokenOutbox('notes are replaced by name, read by age, and deleted when they are old', {
    'old notes stay': noting((notes) => ({ put: (kind, some) => notes.put(kind, some, Infinity) })),
    'the age is ignored': noting((notes) => ({ read: (kind, { limit }) => notes.read(kind, { limit }) })),
    'the oldest is first': noting((notes) => ({ read: async (kind, options) => (await notes.read(kind, options)).toReversed() })),
    'kinds are mixed up': noting((notes) => ({ put: (_, some, keep) => notes.put('rate', some, keep) })),
    'a deletion does not say whether there was one': noting((notes) => ({
      delete: async (...given) => {
        await notes.delete(...given)
        return true
      },
    })),
  }),
  ...brokenOutbox('activity has what pauses, relays and rates return', {
    'relays are missing': overriding((store) => ({
      activity: async (options) => ({ ...(await complete(store).activity(options)), relays: [] }),
    })),
    'the age of rates is ignored': overriding((store) => ({ activity: () => complete(store).activity({ maxAge: 86_400_000 }) })),
    'the oldest rate is first': overriding((store) => ({
      async activity(options) {
        const { rates, ...others } = await complete(store).activity(options)
        return { ...others, rates: rates.toReversed() }
      },
    })),
  }),
  ...brokenOutbox('the audit has who did what, to how many records, and why', {
    'nothing is written': forgetting('audit'),
    'the reason is missing': overriding((store) => ({
      audit: async (options) => (await complete(store).audit(options)).map((entry) => ({ ...entry, reason: undefined })),
    })),
    'what was done elsewhere is not written': overriding((store) => ({ audited: (_, work) => work(complete(store)) })),
    'each step has an entry of its own': overriding((store) => ({
      audited: (entry, work) => complete(store).audited(entry, () => work(complete(store))),
    })),
    'discarding by filter discards everything that is parked': overriding((store) => ({
      discard: (which, reason, operator) => store.discard(Array.isArray(which) ? which : { filter: {} }, `${reason}.`, operator),
    })),
  }),
]

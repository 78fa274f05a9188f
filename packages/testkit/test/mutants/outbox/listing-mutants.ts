import { Message } from '@ackord/core'
import type { DestinationStats, OutboxFilter, OutboxRecord, OutboxState, OutboxStats } from '@ackord/outbox'
import { eventLoopTurn } from '../../../src/helpers/virtual-runtime.ts'
import type { OpenOutboxWorld } from '../../../src/suites/outbox/outbox-world.ts'
import type { Mutant } from '../../support/mutant.ts'
import { allRecords, brokenOutbox, type Decorate, overriding, rearming, showing } from './decorated-outbox.ts'

/** `list()` sorts and pages all records itself. */
function listing(page: (records: readonly OutboxRecord[], after: string | undefined) => readonly OutboxRecord[]): Decorate {
  return overriding((store) => ({
    async list(filter, { limit, after }) {
      const { records } = await store.list(filter, { limit: 10_000 })
      const rest = page(records, after)
      return { records: rest.slice(0, limit), next: rest.length > limit ? rest[limit - 1]?.id : undefined }
    },
  }))
}

/** `list()` reads at most 70 records for a page. `next` is the cursor of a page that is not full, of the records that were read and of those that match. */
function searching(next: (read: readonly OutboxRecord[], found: readonly OutboxRecord[]) => string | undefined): Decorate {
  return overriding((store) => ({
    async list(filter, { limit, after }) {
      const { records, next: rest } = await store.list({}, { limit: 70, after })
      const matching = new Set((await store.list(filter, { limit: 10_000 })).records.map(({ id }) => id))
      const found = records.filter(({ id }) => matching.has(id))
      if (found.length > limit) return { records: found.slice(0, limit), next: found[limit - 1]?.id }
      return { records: found, next: rest === undefined ? undefined : next(records, found) }
    },
  }))
}

/** `list()` finds records, and reads them a moment later. Of these it returns those that fulfil the condition. */
function readingLater(keeps: (record: OutboxRecord, filter: OutboxFilter) => boolean): Decorate {
  return overriding((store) => ({
    async list(filter, page) {
      const { records, next } = await store.list(filter, page)
      await eventLoopTurn()
      const read = await Promise.all(records.map(({ id }) => store.get(id)))
      return { records: read.filter((record) => record !== undefined).filter((record) => keeps(record, filter)), next }
    },
  }))
}

/** `stats()` counts one state as another. */
function counting(from: Exclude<OutboxState, 'ready'>): Decorate {
  return overriding((store) => ({
    async stats() {
      const stats = await store.stats()
      return { ...stats, destinations: stats.destinations.map((one) => ({ ...one, ready: one.ready + one[from], [from]: 0 })) }
    },
  }))
}

/** `stats()` computes the oldest age from other records. */
function ageing(counts: (record: OutboxRecord) => boolean): Decorate {
  return ({ now }) => ({
    store: (store) => ({
      async stats() {
        const ages = (await allRecords(store)).filter(counts).map(({ createdAt }) => now() - createdAt)
        return { ...(await store.stats()), oldestAge: ages.length === 0 ? undefined : Math.max(...ages) }
      },
    }),
  })
}

/** `stats()` reports another age for each destination. */
function ageingEach(age: (one: DestinationStats, all: OutboxStats) => number | undefined): Decorate {
  return overriding((store) => ({
    async stats() {
      const stats = await store.stats()
      return { ...stats, destinations: stats.destinations.map((one) => ({ ...one, oldestAge: age(one, stats) })) }
    },
  }))
}

/** Stores that show operators other records or numbers than there are. */
export const listingMutants: readonly Mutant<OpenOutboxWorld>[] = [
  ...brokenOutbox('list returns all records, oldest first, page by page', {
    'a page begins with the last record of the page before': listing((records, after) =>
      records.filter(({ id }) => Number(id) >= Number(after ?? 0)),
    ),
    'records are sorted by destination': listing((records, after) =>
      records.toSorted((a, b) => a.destination.localeCompare(b.destination)).filter(({ id }) => Number(id) > Number(after ?? 0)),
    ),
  }),
  ...brokenOutbox('list leaves out the payloads on request, and nothing else', {
    'payloads are always there': overriding((store) => ({
      list: (filter, { limit, after }) => store.list(filter, { limit, after }),
    })),
    'payloads are never there': overriding((store) => ({
      list: (filter, page) => store.list(filter, { ...page, payloads: false }),
    })),
    'attributes are missing, too': overriding((store) => ({
      async list(filter, page) {
        const { records, next } = await store.list(filter, page)
        const bare = (record: OutboxRecord) => ({ ...record, message: new Message(record.message.data, { id: record.message.id }) })
        return { next, records: page.payloads === false ? records.map(bare) : records }
      },
    })),
  }),
  ...brokenOutbox('a page continues where the previous one ended, even if records were removed meanwhile', {
    'a page is found by counting': listing((records, after) => records.slice(Number(after ?? 0))),
  }),
  ...brokenOutbox('rejects an invalid cursor instead of starting over or ending', {
    'an invalid cursor is taken for the start': listing((records, after) =>
      records.filter(({ id }) => Number(id) > (Number.parseInt(after ?? '0', 10) || 0)),
    ),
    'an invalid cursor is taken for the end': listing((records, after) =>
      records.filter(({ id }) => after === undefined || Number(id) > Number(after)),
    ),
    'text after a cursor is ignored': overriding((store) => ({
      list: (filter, page) => store.list(filter, { ...page, after: page.after?.replace(/(?<=\d)\D.*$/, '') }),
    })),
  }),
  ...brokenOutbox('list filters by state, destination and type', {
    'the state is ignored': overriding((store) => ({ list: (filter, page) => store.list({ ...filter, state: undefined }, page) })),
    'the destination is ignored': overriding((store) => ({
      list: (filter, page) => store.list({ ...filter, destination: undefined }, page),
    })),
    'the type is ignored': overriding((store) => ({ list: (filter, page) => store.list({ ...filter, type: undefined }, page) })),
  }),
  ...brokenOutbox('list finds the records of a message id, together with other criteria and page by page', {
    'the message id is ignored by list': overriding((store) => ({
      list: (filter, page) => store.list({ ...filter, messageId: undefined }, page),
    })),
    'the message id is ignored by rearm': rearming((which, edit, options) => [
      'ids' in which ? which : { filter: { ...which.filter, messageId: undefined } },
      edit,
      options,
    ]),
    'a message id replaces the other criteria': overriding((store) => ({
      list: (filter, page) => store.list(filter.messageId === undefined ? filter : { messageId: filter.messageId }, page),
    })),
    'only the first record of a message id is found': overriding((store) => ({
      list: async (filter, page) => {
        const { records, next } = await store.list(filter, page)
        return filter.messageId === undefined ? { records, next } : { records: records.slice(0, 1), next: undefined }
      },
    })),
    'the message id is searched for only in the first records': overriding((store) => ({
      async list({ messageId, ...filter }, { limit, after }) {
        const { records } = await store.list(filter, { limit: 100, after })
        const found = records.filter(({ message }) => messageId === undefined || message.id === messageId)
        return { records: found.slice(0, limit), next: undefined }
      },
    })),
  }),
  ...brokenOutbox('a search finds all records that match, oldest first, on pages that may be short, and ends', {
    'a page that is not full is the last one': searching(() => undefined),
    'an empty page is the last one': searching((_, found) => found.at(-1)?.id),
    'a search does not advance on an empty page': searching((read, found) => found.at(-1)?.id ?? String(Number(read[0]?.id) - 1)),
    'a search skips the records behind a page': searching((read) => String(Number(read.at(-1)?.id) + 30)),
    'a search begins again with records of the page before': searching((read) => read[Math.floor(read.length / 2)]?.id),
  }),
  ...brokenOutbox('a listing by state returns full pages of records in that state, while a relay claims and releases', {
    'records are read after they were found, whatever their state is by then': readingLater(() => true),
    'records that have changed since they were found are missing': readingLater((record, { state }) => record.state === state),
  }),
  ...brokenOutbox('operators see the record and its message', {
    'the message can be settled': showing(({ message, ...record }) => ({
      ...record,
      message: new Message(message.data, message.attributes, { acking: { ack() {}, nack() {}, reject() {} } }),
    })),
  }),
  ...brokenOutbox('get of a deleted record resolves to undefined', {
    'get throws': overriding((store) => ({
      async get(id) {
        const record = await store.get(id)
        if (record === undefined) throw new Error('not found')
        return record
      },
    })),
  }),
  ...brokenOutbox('stats count each state of each destination', {
    'leased records count as ready': counting('leased'),
    'waiting records count as ready': counting('waiting'),
  }),
  ...brokenOutbox('the oldest age is that of the oldest record that is neither published nor parked', {
    'parked records count': ageing(() => true),
    'records that were claimed do not count': ageing(
      ({ state, attempts }) => state !== 'parked' && state !== 'published' && attempts === 0,
    ),
  }),
  ...brokenOutbox('each destination has the age of its oldest record that is neither published nor parked', {
    'every destination has the age of the oldest record': ageingEach((_, { oldestAge }) => oldestAge),
    'a destination whose records are all leased or waiting has no age': ageingEach(({ ready, oldestAge }) =>
      ready === 0 ? undefined : oldestAge,
    ),
    'a destination with parked records only has an age': ageingEach(({ oldestAge }) => oldestAge ?? 0),
    'no destination has an age': ageingEach(() => undefined),
  }),
]

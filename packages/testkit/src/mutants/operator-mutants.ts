import { Message } from '@ackord/core'
import type { Mutant } from '../run/scenario.ts'
import type { OpenOutboxWorld } from '../suites/outbox/outbox-world.ts'
import { outboxRules } from './outbox-rules.ts'
import { brokenOutbox } from './ruled-outbox-world.ts'

const { settle, rearm, park, matches, page } = outboxRules

/** Stores that mislead their operators, delete too much, or lose records on long ways. */
export const operatorMutants: readonly Mutant<OpenOutboxWorld>[] = [
  ...brokenOutbox('rearm makes a parked record ready again, with no attempts counted', {
    'rearm keeps the attempts': {
      rearm(row, edit, now, options) {
        const { attempts } = row
        rearm(row, edit, now, options)
        row.attempts = attempts
      },
    },
  }),
  ...brokenOutbox('rearm is idempotent, and leaves alone what is not parked', {
    'rearm takes any record': { isRearmed: () => true },
  }),
  ...brokenOutbox('rearm can edit: another destination, other data, attributes added and replaced', {
    'the edit is ignored': { rearm: (row, _, now, options) => rearm(row, {}, now, options) },
    'edited attributes replace all others': {
      rearm(row, edit, now, options) {
        if (edit.attributes !== undefined) row.attributes = { id: row.attributes.id, type: row.attributes.type }
        rearm(row, edit, now, options)
      },
    },
  }),
  ...brokenOutbox('rearm by filter takes the parked records that match, and no others', {
    'the filter is ignored': { isRearmed: (row) => row.status === 'parked' },
    'the filter is all that counts': { isRearmed: (row, filter, fits) => (filter !== undefined ? fits(filter) : row.status === 'parked') },
  }),
  ...brokenOutbox('rearm can keep the attempts, and put the records off', {
    'attempts are always set to 0': { rearm: (row, edit, now, options) => rearm(row, edit, now, { ...options, keepAttempts: false }) },
    'the delay is ignored': { rearm: (row, edit, now, options) => rearm(row, edit, now, { ...options, delay: 0 }) },
  }),
  ...brokenOutbox('park keeps ready and waiting records from being published, and leaves all others alone', {
    'park takes leased records': { isParked: (_, state) => state !== 'parked' && state !== 'published' },
    'park takes parked records again': { isParked: (_, state) => state !== 'leased' && state !== 'published' },
    'park leaves waiting records alone': { isParked: (_, state) => state === 'ready' },
    'the reason is lost': { park: (row, _, now) => park(row, '', now) },
  }),
  ...brokenOutbox('a record that is parked before its first claim is left out, and those around it are claimed once', {
    'park leaves records alone that were never claimed': {
      isParked: (row, state) => (state === 'ready' || state === 'waiting') && (row.leasedUntil > 0 || row.availableAt > row.createdAt),
    },
    'a record that was parked has an attempt more': {
      rearm(row, edit, now, options) {
        rearm(row, edit, now, options)
        row.attempts += 1
      },
    },
  }),
  ...brokenOutbox('rearm publishes kept records again, if it is asked for published ones', {
    'the state is ignored': { isRearmed: (row, filter, fits) => row.status !== 'pending' && (filter === undefined || fits(filter)) },
    'published records stay as they are': {
      isRearmed: (row, filter, fits) => row.status === 'parked' && (filter === undefined || fits(filter)),
    },
    'the time of the first publish stays': {
      rearm(row, edit, now, options) {
        const { publishedAt } = row
        rearm(row, edit, now, options)
        row.publishedAt = publishedAt
      },
    },
  }),
  ...brokenOutbox('cancel removes records that wait for their time, and no others', {
    'cancel removes ready records': { isCancelled: (_, state) => state === 'waiting' || state === 'ready' },
    'cancel removes leased records': { isCancelled: (_, state) => state === 'waiting' || state === 'leased' },
    'cancel leaves failed records alone': { isCancelled: (row, state) => state === 'waiting' && row.attempts === 0 },
    'cancel does nothing': { isCancelled: () => false, cancelCount: () => 2 },
    'the destination is ignored': {
      isNamed: (_, { source, id }, references) => references.some((one) => one.source === source && one.id === id),
    },
    'the source is ignored': {
      isNamed: (destination, { id }, references) => references.some((one) => one.destination === destination && one.id === id),
    },
    'the count is wrong': { cancelCount: (count) => count + 1 },
  }),
  ...brokenOutbox('cancel takes effect only if its transaction commits', {
    'cancel removes records at once': { cancelsInTransaction: false },
  }),
  ...brokenOutbox('cancel sees what its own transaction has appended', {
    'only committed records are cancelled': { cancelsOwn: false },
  }),
  ...brokenOutbox('a record whose time has come can no longer be cancelled', {
    'any delayed record is cancelled': { isCancelled: (row, state) => state === 'waiting' || row.availableAt > row.createdAt },
  }),
  ...brokenOutbox('discard removes parked records for good, and no others', {
    'discard removes any record': { isDiscarded: () => true },
  }),
  ...brokenOutbox('a kept published record can be seen, and is in no way pending', {
    'rearm takes published records': { isRearmed: (row) => row.status !== 'pending' },
    'a published record is claimed again': { isPending: (row) => row.status !== 'parked' },
  }),
  ...brokenOutbox('deletePublished goes by when a record was published, not by when it was stored', {
    'it goes by createdAt': { isDeleted: (row, before) => row.status === 'published' && row.createdAt <= before },
  }),
  ...brokenOutbox('deletePublished removes no more than its limit at a time', {
    'the limit is ignored': { deletes: () => Infinity },
  }),
  ...brokenOutbox('deletePublished never touches what is not published, however old', {
    'old is old': { isDeleted: (row, before) => row.createdAt <= before },
    'parked records are cleaned up too': { isDeleted: (row) => row.status !== 'pending' },
  }),
  ...brokenOutbox('list gives all records, oldest first, a page at a time', {
    'a page begins with the last one of the page before': { page: (rows, after) => rows.filter((row) => row.place >= Number(after ?? 0)) },
    'records are sorted by destination': { sort: (rows) => rows.toSorted((a, b) => a.destination.localeCompare(b.destination)) },
  }),
  ...brokenOutbox('a page goes on where the one before it ended, also when records went meanwhile', {
    'a page is found by counting': { page: (rows, after) => rows.slice(Number(after ?? 0)) },
  }),
  ...brokenOutbox('a cursor that is none is refused, and not taken for the start or the end', {
    'it is taken for the start': { page: (rows, after) => rows.filter((row) => row.place > (Number.parseInt(after ?? '0', 10) || 0)) },
    'it is taken for the end': { page: (rows, after) => rows.filter((row) => after === undefined || row.place > Number(after)) },
    'what follows a cursor is ignored': { page: (rows, after) => page(rows, after?.replace(/(?<=\d)\D.*$/, '')) },
  }),
  ...brokenOutbox('list filters by state, destination and type', {
    'the state is ignored': { matches: (row, state, filter) => matches(row, state, { ...filter, state: undefined }) },
    'the destination is ignored': { matches: (row, state, filter) => matches(row, state, { ...filter, destination: undefined }) },
    'the type is ignored': { matches: (row, state, filter) => matches(row, state, { ...filter, type: undefined }) },
  }),
  ...brokenOutbox('operators see a record as it is, with its message', {
    'the message can be settled': {
      show: (row) => new Message(row.data, row.attributes, { acking: { ack() {}, nack() {}, reject() {} } }),
    },
  }),
  ...brokenOutbox('get of a record that is gone resolves to undefined', {
    'it throws': {
      missing() {
        throw new Error('not found')
      },
    },
  }),
  ...brokenOutbox('stats count each state of each destination', {
    'what is leased counts as ready': { counts: (state) => (state === 'leased' ? 'ready' : state) },
    'what waits counts as ready': { counts: (state) => (state === 'waiting' ? 'ready' : state) },
  }),
  ...brokenOutbox('the oldest age is that of the oldest record that is neither published nor parked', {
    'parked records count': { ages: () => true },
    'leased records do not count': { ages: (row) => row.status === 'pending' && row.token === undefined },
  }),
  ...brokenOutbox('in any history the store does as the model says, and every record ends claimable, published or parked', {
    'a record that failed three times is never found again': {
      isPending: (row) => row.status === 'pending' && (row.attempts < 3 || row.token !== undefined),
    },
    'the second failure leaves a lease behind that never ends': {
      settle(row, outcome, now) {
        settle(row, outcome, now)
        if (outcome.result === 'failed' && row.attempts === 2) Object.assign(row, { token: 'nobody', leasedUntil: Infinity })
      },
    },
  }),
]

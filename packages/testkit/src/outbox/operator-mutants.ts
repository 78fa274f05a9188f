import { Message } from '@ackord/core'
import type { Mutant } from '../scenario.ts'
import { outboxRules } from './outbox-rules.ts'
import type { OpenOutboxWorld } from './outbox-world.ts'
import { brokenOutbox } from './ruled-outbox-world.ts'

const { settle, rearm, matches, page } = outboxRules

/** Stores that mislead their operators, delete too much, or lose records on long ways. */
export const operatorMutants: readonly Mutant<OpenOutboxWorld>[] = [
  ...brokenOutbox('rearm makes a parked record ready again, with no attempts counted', {
    'rearm keeps the attempts': {
      rearm(row, edit, now) {
        const { attempts } = row
        rearm(row, edit, now)
        row.attempts = attempts
      },
    },
  }),
  ...brokenOutbox('rearm is idempotent, and leaves alone what is not parked', {
    'rearm takes any record': { isRearmed: () => true },
  }),
  ...brokenOutbox('rearm can edit: another destination, other data, attributes added and replaced', {
    'the edit is ignored': { rearm: (row, _, now) => rearm(row, {}, now) },
    'edited attributes replace all others': {
      rearm(row, edit, now) {
        if (edit.attributes !== undefined) row.attributes = { id: row.attributes.id, type: row.attributes.type }
        rearm(row, edit, now)
      },
    },
  }),
  ...brokenOutbox('rearm by filter takes the parked records that match, and no others', {
    'the filter is ignored': { isRearmed: (row) => row.status === 'parked' },
    'the filter is all that counts': { isRearmed: (row, filter, fits) => (filter !== undefined ? fits(filter) : row.status === 'parked') },
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

import { Message } from '@ackord/core'
import { MemoryOutboxStore } from '@ackord/outbox'
import type { OpenOutboxWorld } from '../../../src/suites/outbox/outbox-world.ts'
import type { Mutant } from '../../support/mutant.ts'
import { brokenOutbox, choosing, type Decorate, recordsOf, storing, storingAll } from './decorated-outbox.ts'

/** Appends in a separate transaction, which commits immediately. */
const appendingAtOnce: Decorate = ({ world }) => ({
  transaction: () => ({ append: (records) => world.transaction((other) => other.append(records)) }),
})

const refusingEmptyAppends: Decorate = () => ({
  transaction: (transaction) => ({
    async append(records) {
      if (recordsOf(records).length === 0) throw new Error('the list is empty')
      await transaction.append(records)
    },
  }),
})

const newestFirst = choosing((found, { limit }) => found.toReversed().slice(0, limit))

/** Stores that lose or reorder appended records, or store them too early. */
export const appendMutants: readonly Mutant<OpenOutboxWorld>[] = [
  ...brokenOutbox('the fixture does what it claims', {
    'the second store has its own data': () => ({ another: async () => new MemoryOutboxStore() }),
  }),
  ...brokenOutbox('a committed record can be claimed, with the content that was appended', {
    'nothing is stored': storingAll(() => []),
    'the destination is fixed': storing((record) => ({ ...record, destination: 'orders' })),
    'the store assigns its own message ids': storing(({ message, ...record }) => ({
      ...record,
      message: new Message(message.data, { ...message.attributes, id: 'own' }),
    })),
  }),
  ...brokenOutbox('append takes one event or several, marshals their data, and adds the attributes that they do not have', {
    'one event alone is not stored': () => ({
      transaction: (transaction) => ({ append: (events) => transaction.append(Array.isArray(events) ? events : []) }),
    }),
    'all events get the same id': storing(({ message, ...record }) => ({ ...record, message: message.withAttributes({ id: 'same' }) })),
    'data is stored as text': storing(({ message, ...record }) => ({
      ...record,
      message: message.copy(new TextEncoder().encode(String(message.data))),
    })),
  }),
  ...brokenOutbox('append rejects what is no event, and an event without a destination, a type or a source, and says what to pass', {
    'other values are skipped': storingAll((records) => records.filter((record) => record?.message instanceof Message)),
    'a missing destination becomes a default': () => ({
      transaction: (transaction) => ({
        append: (events) => transaction.append(events instanceof Message ? { destination: 'default', message: events } : events),
      }),
    }),
  }),
  ...brokenOutbox('a record cannot be claimed before its transaction commits', {
    'append does not wait for the commit': appendingAtOnce,
  }),
  ...brokenOutbox('an append that is rolled back leaves no record', {
    'append is outside of the transaction': appendingAtOnce,
  }),
  ...brokenOutbox('append rejects a transaction that has ended', {
    'a late append is stored by itself': ({ world }) => ({
      transaction: (transaction) => ({
        append: (records) => transaction.append(records).catch(() => world.transaction((other) => other.append(records))),
      }),
    }),
  }),
  ...brokenOutbox('appending nothing is allowed and stores nothing', {
    'an empty list is an error': refusingEmptyAppends,
  }),
  ...brokenOutbox('an append is stored completely or not at all', {
    'records are stored one by one': () => ({
      transaction: (transaction) => ({
        async append(records) {
          for (const record of recordsOf(records)) {
            if (record.message.id?.includes('\0') === true) throw new Error('an id with a NUL character cannot be stored')
            await transaction.append([record])
          }
        },
      }),
    }),
  }),
  ...brokenOutbox('records of a destination are claimed in the order they were appended', {
    'the newest record comes first': newestFirst,
    'an append is stored in reverse': storingAll((records) => records.toReversed()),
  }),
  ...brokenOutbox('rolling back to a savepoint removes the records that were appended in it, and keeps the others', {
    'savepoints are ignored': () => ({ transaction: () => ({ savepoint: (work) => work() }) }),
  }),
  ...brokenOutbox('records that were appended in a released savepoint commit with the transaction', {
    'a released savepoint commits by itself': ({ world }) => {
      let inSavepoint = false
      return {
        transaction: (transaction) => ({
          async append(records) {
            if (inSavepoint) await world.transaction((other) => other.append(records))
            else await transaction.append(records)
          },
          async savepoint(work) {
            inSavepoint = true
            await work().finally(() => {
              inSavepoint = false
            })
          },
        }),
      }
    },
  }),
  ...brokenOutbox('a delayed record waits until it is due and does not delay other records', {
    'the delay is ignored': storing((record) => ({ ...record, delay: 0 })),
    'the first record of the table holds up the others': choosing(async (found, _, store) => {
      const [first] = (await store.list({}, { limit: 1 })).records
      return found.filter(({ id }) => id === first?.id)
    }),
  }),
  ...brokenOutbox('an event that was created with a delay, or with an instant, waits until then', {
    'the delay of an event is ignored': storing((record) => ({ ...record, delay: record.delay ?? 0 })),
    'the delay of an event replaces that of the record': storing(({ delay, ...record }) => record),
    'the delay becomes an attribute': storing((record) => ({ ...record, message: record.message.withAttributes({ delay: 1 }) })),
  }),
]

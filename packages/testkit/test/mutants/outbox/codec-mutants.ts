import type { RawMessage } from '@ackord/core'
import type { PayloadCodec } from '@ackord/core/payload'
import type { NewOutboxRecord } from '@ackord/outbox'
import { type OpenOutboxWorld, type OutboxTransaction, openMemoryOutboxWorld } from '../../../src/suites/outbox/outbox-world.ts'
import { type Mutant, mutantsOf } from '../../support/mutant.ts'
import { brokenOutbox, decoratedOutbox, recordsOf, storing } from './decorated-outbox.ts'

type Codecs = readonly PayloadCodec[]

/** Stores that get other codecs than those of the options. */
function withOtherCodecs(caughtBy: string, defects: Readonly<Record<string, (codecs: Codecs) => Codecs>>): Mutant<OpenOutboxWorld>[] {
  return mutantsOf(
    caughtBy,
    defects,
    (change): OpenOutboxWorld =>
      (options) => {
        return openMemoryOutboxWorld({ ...options, codecs: change(options.codecs ?? []) })
      },
  )
}

type Append = (
  transaction: OutboxTransaction,
  records: readonly NewOutboxRecord[],
  encode: (record: NewOutboxRecord) => Promise<NewOutboxRecord>,
) => Promise<void>

/** Stores with a step of their own that encodes. */
function encodingThemselves(caughtBy: string, defects: Readonly<Record<string, Append>>): Mutant<OpenOutboxWorld>[] {
  return mutantsOf(
    caughtBy,
    defects,
    (append): OpenOutboxWorld =>
      ({ codecs = [], ...options }) => {
        const encode = async (record: NewOutboxRecord) => ({ ...record, message: await encodeWith(codecs, record.message) })
        const open = decoratedOutbox(() => ({
          transaction: (transaction) => ({ append: (events) => append(transaction, recordsOf(events), encode) }),
        }))
        return open(options)
      },
  )
}

async function encodeWith(codecs: Codecs, message: RawMessage): Promise<RawMessage> {
  let encoded = message
  for (const codec of codecs) encoded = await codec.encode(encoded, { signal: new AbortController().signal })
  return encoded
}

/** Applies the codecs to all records at once, and stores them whenever that is done. */
const whenEncoded: Append = async (transaction, records, encode) => {
  await transaction.append(await Promise.all(records.map(encode)))
}

/** Stores with codecs that leave data as it is, lose events or change their order. */
export const codecMutants: readonly Mutant<OpenOutboxWorld>[] = [
  ...withOtherCodecs('append stores what the codecs make of an event, and applies them once', {
    'the data is stored as it is': () => [],
    'only the first codec is applied': (codecs) => codecs.slice(0, 1),
    'the codecs are applied in reverse': (codecs) => codecs.toReversed(),
    'every codec is called twice': (codecs) =>
      codecs.map(({ encode, decode }) => ({
        encode: async (message, call) => {
          await encode(message, call)
          return await encode(message, call)
        },
        decode,
      })),
  }),
  ...brokenOutbox('a delayed record with codecs waits until it is due', {
    'the delay is lost': storing(({ destination, message }) => ({ destination, message })),
  }),
  ...encodingThemselves('records of a transaction keep their order if a codec takes longer for the first', {
    'an append is stored when it is encoded': whenEncoded,
    'a record is stored when it is encoded': async (transaction, records, encode) => {
      await Promise.all(records.map(async (record) => transaction.append([await encode(record)])))
    },
  }),
  ...encodingThemselves('an append with codecs that is not awaited is part of the commit', {
    'the commit does not wait for the codecs': whenEncoded,
  }),
  ...encodingThemselves('nothing of an append is stored if a codec fails for one of its events', {
    'the other events are stored': async (transaction, records, encode) => {
      const results = await Promise.allSettled(records.map(encode))
      await transaction.append(results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : [])))
      for (const result of results) if (result.status === 'rejected') throw new Error('A codec failed.', { cause: result.reason })
    },
    'an event that cannot be encoded is stored as it is': async (transaction, records, encode) => {
      await transaction.append(await Promise.all(records.map((record) => encode(record).catch(() => record))))
    },
    'the cause is lost': async (transaction, records, encode) => {
      await transaction.append(
        await Promise.all(records.map(encode)).catch(() => {
          throw new Error('A codec failed.')
        }),
      )
    },
  }),
]

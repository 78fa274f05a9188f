import { type Attributes, Message } from '@ackord/core'
import type { NewOutboxRecord } from '@ackord/outbox'
import type { OpenOutboxWorld } from '../../../src/suites/outbox/outbox-world.ts'
import type { Mutant } from '../../support/mutant.ts'
import { brokenOutbox, choosing, overriding, storing, storingAll } from './decorated-outbox.ts'

/** Stores that change the content of records. */
export const contentMutants: readonly Mutant<OpenOutboxWorld>[] = [
  ...brokenOutbox('keeps bytes unchanged: empty, binary, Unicode, a megabyte', {
    'bytes are stored as text': storing((record) =>
      changed(record, { data: new TextEncoder().encode(new TextDecoder().decode(record.message.data)) }),
    ),
    'empty data becomes null': storing((record) =>
      record.message.data.length === 0 ? changed(record, { data: new TextEncoder().encode('null') }) : record,
    ),
  }),
  ...brokenOutbox('keeps attributes unchanged, with their types', {
    'attributes are stored as text': storing((record) => changed(record, { attributes: mapped(record, (value) => String(value)) })),
    'empty strings are dropped': storing((record) =>
      changed(record, { attributes: mapped(record, (value) => (value === '' ? undefined : value)) }),
    ),
  }),
  ...brokenOutbox('keeps dates and bytes in attributes as such or as CloudEvents writes them', {
    'attributes come back as plain JSON': overriding((store) => ({
      async claim(options) {
        const claimed = await store.claim(options)
        return claimed.map(({ message: { data, attributes }, ...one }) => ({
          ...one,
          message: new Message(data, JSON.parse(JSON.stringify(attributes)) as Attributes),
        }))
      },
    })),
  }),
  ...brokenOutbox('keeps 200 attributes', {
    'only 100 attributes are stored': storing(({ message, ...record }) => ({
      ...record,
      message: new Message(message.data, Object.fromEntries(Object.entries(message.attributes).slice(0, 100))),
    })),
  }),
  ...brokenOutbox('keeps destinations unchanged, and distinguishes them byte by byte', {
    'destinations are converted to lower case': storing((record) => ({ ...record, destination: record.destination.toLowerCase() })),
    'destinations are compared by a collation': choosing(
      (found, { destinations }) => {
        const wanted = destinations?.map(collated)
        return wanted === undefined ? found : found.filter(({ destination }) => wanted.includes(collated(destination)))
      },
      (options) => ({ ...options, destinations: undefined }),
    ),
  }),
  ...brokenOutbox('two records with the same message id are two records', {
    'the second record with a message id is dropped': storingAll((records) =>
      records.filter(({ message }, index) => records.findIndex((other) => other.message.id === message.id) === index),
    ),
  }),
]

function changed(record: NewOutboxRecord, edit: { readonly data?: Uint8Array; readonly attributes?: Attributes }): NewOutboxRecord {
  const { data, attributes } = record.message
  const message = new Message(edit.data ?? data, { ...attributes, ...edit.attributes })
  return { ...record, message }
}

function mapped(record: NewOutboxRecord, change: (value: Attributes[string]) => Attributes[string]): Attributes {
  return Object.fromEntries(Object.entries(record.message.attributes).map(([name, value]) => [name, change(value)]))
}

/** How a collation that ignores case and trailing spaces compares strings. */
function collated(text: string): string {
  return text.normalize('NFC').toLowerCase().trimEnd()
}

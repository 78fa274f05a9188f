import { type Attributes, Message } from '@ackord/core'
import type { NewOutboxRecord } from '@ackord/outbox'
import type { Mutant } from '../run/scenario.ts'
import type { OpenOutboxWorld } from '../suites/outbox/outbox-world.ts'
import { outboxRules } from './outbox-rules.ts'
import { brokenOutbox } from './ruled-outbox-world.ts'

const { selects } = outboxRules

/** Stores that change what they keep. */
export const contentMutants: readonly Mutant<OpenOutboxWorld>[] = [
  ...brokenOutbox('bytes come back as they were: empty, binary, unicode, a megabyte', {
    'bytes are kept as text': {
      store: (record) => changed(record, { data: new TextEncoder().encode(new TextDecoder().decode(record.message.data)) }),
    },
    'empty data becomes null': {
      store: (record) => (record.message.data.length === 0 ? changed(record, { data: new TextEncoder().encode('null') }) : record),
    },
  }),
  ...brokenOutbox('attributes come back as they were, with their types', {
    'attributes are kept as text': { store: (record) => changed(record, { attributes: mapped(record, (value) => String(value)) }) },
    'empty texts are dropped': {
      store: (record) => changed(record, { attributes: mapped(record, (value) => (value === '' ? undefined : value)) }),
    },
  }),
  ...brokenOutbox('instants and bytes as attributes come back as such or as CloudEvents writes them', {
    'attributes go through JSON as they are': {
      store: (record) => changed(record, { attributes: JSON.parse(JSON.stringify(record.message.attributes)) as Attributes }),
    },
  }),
  ...brokenOutbox('200 attributes come back', {
    'only 100 attributes are kept': {
      store: ({ message, ...record }) => ({
        ...record,
        message: new Message(message.data, Object.fromEntries(Object.entries(message.attributes).slice(0, 100))),
      }),
    },
  }),
  ...brokenOutbox('destinations come back as they were, and are told apart byte for byte', {
    'destinations are in lower case': { store: (record) => ({ ...record, destination: record.destination.toLowerCase() }) },
    'destinations are compared as a database collates': {
      selects: (row, options) =>
        selects({ ...row, destination: collated(row.destination) }, { ...options, destinations: options.destinations?.map(collated) }),
    },
  }),
  ...brokenOutbox('two records with the same message id are two records', {
    'the second record with a message id is dropped': {
      storeAll: (records) =>
        records.filter(({ message }, index) => records.findIndex((other) => other.message.id === message.id) === index),
    },
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

/** As a collation that ignores case and trailing blanks does. */
function collated(text: string): string {
  return text.normalize('NFC').toLowerCase().trimEnd()
}

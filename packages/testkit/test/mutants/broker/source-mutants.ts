import { type Attributes, Message, type PublishResult, type RawMessage } from '@ackord/core'
import type { OpenBrokerWorld } from '../../../src/suites/broker/broker-world.ts'
import type { Mutant } from '../../support/mutant.ts'
import type { BrokerRules } from './broker-rules.ts'
import { brokenBroker, wrongAddresses } from './decorated-broker.ts'

/** Sources with one defect each, and the scenario that must catch it. */
export const sourceMutants: readonly Mutant<OpenBrokerWorld>[] = [
  ...brokenBroker('two sources of one group share the messages: no message reaches both, and each source gets some', {
    'every source is a group': { group: (group, source) => `${group} ${source}` },
    'one source gets all messages': { options: (options) => ({ ...options, prefetch: 100 }), buffers: 10 },
  }),
  ...brokenBroker('messages that are published before and after a source starts arrive once each', {
    'earlier messages are omitted': { options: (options) => ({ ...options, from: 'newest' }) },
    'every message is stored twice': { store: (messages) => [...messages, ...messages] },
  }),
  ...brokenBroker('the messages that one call publishes for one key reach a single consumer in order', {
    'messages are stored in reverse order': { store: (messages) => [...messages].reverse() },
  }),
  ...brokenBroker('many publishers and many consumers: every message arrives', {
    'the last message of a call is lost': { store: (messages) => messages.slice(0, 9) },
    'every source is a group': { group: (group, source) => `${group} ${source}` },
  }),
  ...brokenBroker('messages of one topic are not delivered from another', {
    'there is one topic': { destination: () => 'topic1' },
  }),
  ...brokenBroker('delivers bytes unchanged: empty, single, all values, Unicode, JSON that a parser would change', {
    'bytes are converted to text': { store: changeData((data) => utf8.encode(text.decode(data))) },
    'JSON is parsed': { store: changeData(parsed) },
    'empty messages are dropped': { store: (messages) => messages.filter(({ data }) => data.byteLength > 0) },
  }),
  ...brokenBroker('delivers a message of the maximum size unchanged', {
    'the message is cut': { store: changeData((data) => data.slice(0, 65_536)) },
  }),
  ...brokenBroker(
    'delivers attributes unchanged: Unicode, line breaks, percent signs, quotes, leading and trailing spaces, empty strings',
    {
      'spaces are trimmed': { store: changeTexts((value) => value.trim()) },
      'line breaks become spaces': { store: changeTexts((value) => value.replaceAll(/[\r\n]+/g, ' ')) },
      'attributes are decoded twice': { store: changeTexts((value) => value.replaceAll('%41', 'A')) },
      'attributes are stored as Latin-1': { store: changeTexts((value) => Buffer.from(value, 'latin1').toString('latin1')) },
      'empty attributes are omitted': { store: changeAttributes((attributes) => pick(attributes, (value) => value !== '')) },
      'strings that look like numbers become numbers': {
        store: changeAttributes((attributes) => map(attributes, (value) => (value === '0123' ? 123 : value))),
      },
    },
  ),
  ...brokenBroker('a timestamp keeps its fraction', {
    'fractions of a second are dropped': {
      store: changeAttributes((attributes) => map(attributes, (value) => (isInstant(value) ? seconds(value) : value))),
    },
  }),
  ...brokenBroker('delivers a message with 200 attributes, and one without any', {
    'only 100 attributes are kept': {
      store: changeAttributes((attributes) => Object.fromEntries(Object.entries(attributes).slice(0, 100))),
    },
    'a message without an id is dropped': { store: (messages) => messages.filter(({ id }) => id !== undefined) },
  }),
  ...brokenBroker('attributes keep their type: numbers, booleans, bytes', {
    'every attribute becomes a string': { store: changeAttributes((attributes) => map(attributes, String)) },
  }),
  ...brokenBroker('attributes may have any name', {
    'a name replaces the prototype': { store: changeAttributes((attributes) => Object.assign({}, attributes)) },
    'names are in lower case': {
      store: changeAttributes((attributes) =>
        Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name.toLowerCase(), value])),
      ),
    },
  }),
  ...brokenBroker('an acked message is not redelivered', {
    'an ack does nothing': { ack: () => Promise.resolve() },
  }),
  ...brokenBroker('a nacked message is redelivered unchanged', {
    'a nack is an ack': { nack: (message) => message.ack() },
    'a redelivered message has no data': {
      nack: (message, delay) => message.nack(undefined, { retryAfter: delay }),
      deliver: (message) => (message.deliveryCount === 1 ? message : message.copy(new Uint8Array())),
    },
  }),
  ...brokenBroker('acking one message does not ack its neighbours', {
    'earlier messages are acked as well': {
      async ack(message, { unsettled }) {
        for (const earlier of unsettled) if (Number(earlier.id?.slice(1)) < Number(message.id?.slice(1))) await earlier.ack()
        await message.ack()
      },
    },
    'one ack acks all unsettled messages': {
      async ack(message, { unsettled }) {
        for (const other of [message, ...unsettled]) await other.ack()
      },
    },
    'an acked message is redelivered with its neighbours': {
      ack: (message, { unsettled }) => (unsettled.size === 0 ? message.ack() : Promise.resolve()),
    },
  }),
  ...brokenBroker('the first verdict counts, and a second one changes nothing', {
    'a late ack counts': { deliver: lateVerdict('nacked', 'ack') },
    'a late nack reports success': { deliver: lateVerdict('acked', 'nack') },
  }),
  ...brokenBroker('unsettled messages are redelivered when their source is disposed, and a late verdict is rejected', {
    'unsettled messages are acked': {
      async beforeRedelivery({ unsettled }) {
        for (const message of unsettled) await message.ack()
      },
    },
    'a late verdict has no effect and reports success': { refusesLateVerdicts: false },
    'unsettled messages stay with their source': { disposeEndsIterations: false },
  }),
  ...brokenBroker('a rejected message is in the dead letter, unchanged and with the reason, and is not redelivered', {
    'the message is dropped': { deadLetter: () => 'discard' },
    'there is no reason': { deadLetter: sending((letter) => letter.withAttributes({ deadletterreason: undefined })) },
    'there is no origin': { deadLetter: sending((letter) => letter.withAttributes({ deadletterdestination: undefined })) },
    'the message is redelivered as well': {
      deadLetter: (given) =>
        given && {
          ...given,
          publisher: {
            async publish(name, letters, options) {
              await given.publisher.publish(name, letters, options)
              throw new Error('no answer')
            },
          },
        },
    },
  }),
  ...brokenBroker(
    'a rejected message whose attributes the dead letter refuses permanently is sent complete in an envelope, and is not redelivered',
    {
      'no other form is tried': { deadLetter: answering((result) => (isRefusal(result) ? { ...result, permanent: false } : result)) },
      'a refused letter is dropped': { deadLetter: answering((result) => (isRefusal(result) ? { ok: true } : result)) },
      'the envelope has no data': {
        deadLetter: (given) =>
          given && {
            ...given,
            publisher: { publish: (name, letters, options) => given.publisher.publish(name, letters.map(dataless), options) },
          },
      },
    },
  ),
  ...brokenBroker('a source that can inherit a logger passes it on to the publisher of its dead letter', {
    'the dead letter keeps its default': { deadLetter: answering((result) => result) },
  }),
  ...brokenBroker('a rejected message is redelivered if the dead letter does not confirm it', {
    'the answer of the dead letter is ignored': {
      deadLetter: (given) =>
        given && { ...given, publisher: { publish: async (_name, letters) => letters.map(() => ({ ok: true }) as const) } },
    },
  }),
  ...brokenBroker('the delivery count is one at first and grows with every nack', {
    'the count is always one': { deliveryCount: () => 1 },
    'deliveries are not counted': { deliveryCount: () => undefined },
  }),
  ...brokenBroker('a nack with a delay delays the redelivery of that message and of no other', {
    'the message is redelivered at once': { nack: (message) => message.nack() },
    'a short delay becomes a long one': { nack: (message) => message.nack(undefined, { retryAfter: 600_000 }) },
  }),
  ...brokenBroker('the messages of a key are delivered one at a time in the order of their publishes, whichever source takes them', {
    'keys are ignored': { options: (options) => ({ ...options, orderPerKey: false }) },
    'messages are stored in reverse order': { store: (messages) => [...messages].reverse() },
  }),
  ...brokenBroker('a nacked message is redelivered before the later messages of its key, and other keys continue meanwhile', {
    'the next message of the key is delivered': { options: (options) => ({ ...options, orderPerKey: false }) },
  }),
  ...brokenBroker('a key whose first message always fails does not stop the other keys', {
    'all messages have the same key': { store: changeAttributes((attributes) => ({ ...attributes, partitionkey: 'poison' })) },
    'the next message of the key is delivered': { options: (options) => ({ ...options, orderPerKey: false }) },
  }),
  ...brokenBroker('the order of a key is kept when one source is disposed and another continues', {
    'unsettled messages go to the end of the topic': {
      async beforeRedelivery({ unsettled, append }) {
        for (const message of unsettled) {
          await append(message)
          await message.ack()
        }
      },
    },
  }),
  ...brokenBroker('each group gets every message and settles it independently', {
    'there is one group': { group: () => 'one' },
  }),
  ...brokenBroker('a group that starts later gets messages that other groups have settled before', {
    'settled messages are deleted': { keepsSettled: false },
  }),
  ...brokenBroker('an iteration that waits ends without an error when its signal is aborted', {
    'the signal is ignored': { honoursSignal: false },
  }),
  ...brokenBroker('an iteration whose signal is already aborted takes no message', {
    'the signal is ignored': { honoursSignal: false },
  }),
  ...brokenBroker('leaving a loop releases messages that were fetched and not yielded', {
    'messages that were read ahead are kept': { buffers: 5 },
  }),
  ...brokenBroker('yielded messages can be settled after the loop has ended', {
    'leaving the loop redelivers unsettled messages': { leaveDisposes: true },
  }),
  ...brokenBroker('a source may be disposed before it starts, while it waits, and twice', {
    'the second dispose is an error': { disposesTwice: false },
    'iterations continue': { disposeEndsIterations: false },
  }),
  ...brokenBroker('a new source continues where the last one stopped', {
    'every source begins with the first message': { group: (group, source) => `${group} ${source}` },
  }),
  ...brokenBroker('a source names its system, and its server by a valid host and port if at all', wrongAddresses),
  ...brokenBroker('carries traceparent and tracestate unchanged', {
    'the trace is dropped': { store: changeAttributes(({ traceparent: _, ...attributes }) => attributes) },
    'tracestate is dropped': { store: changeAttributes(({ tracestate: _, ...attributes }) => attributes) },
    'baggage is dropped': { store: changeAttributes(({ baggage: _, ...attributes }) => attributes) },
    'a message without a trace gets one': {
      store: changeAttributes((attributes) => ({ traceparent: `00-${'d'.repeat(32)}-${'d'.repeat(16)}-01`, ...attributes })),
    },
    'every message is sampled': {
      store: changeTexts((value) => value.replace(/^(00-[\da-f]{32}-[\da-f]{16})-00$/, '$1-01')),
    },
    'all messages of a call have the trace of the first one': {
      store: (messages) =>
        messages.map((message) => {
          const { traceparent, tracestate } = messages[0]?.attributes ?? {}
          return traceparent === undefined ? message : message.withAttributes({ traceparent, tracestate })
        }),
    },
  }),
  ...brokenBroker('a broker that is restarted twice during a run loses no confirmed message', {
    'unsettled messages are lost': { survivesRestart: false },
  }),
]

const utf8 = new TextEncoder()
const text = new TextDecoder()

function changeData(change: (data: Uint8Array) => Uint8Array): BrokerRules['store'] {
  return (messages) => messages.map((message) => message.copy(change(message.data)))
}

function changeAttributes(change: (attributes: Attributes) => Attributes): BrokerRules['store'] {
  return (messages) => messages.map(({ data, attributes }) => new Message(data, change(attributes)))
}

function changeTexts(change: (value: string) => string): BrokerRules['store'] {
  return changeAttributes((attributes) => map(attributes, (value) => (typeof value === 'string' ? change(value) : value)))
}

function map(attributes: Attributes, change: (value: NonNullable<Attributes[string]>) => NonNullable<Attributes[string]>): Attributes {
  return Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name, value === undefined ? undefined : change(value)]))
}

function pick(attributes: Attributes, isKept: (value: unknown) => boolean): Attributes {
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => isKept(value)))
}

function parsed(data: Uint8Array): Uint8Array {
  try {
    return utf8.encode(JSON.stringify(JSON.parse(text.decode(data))))
  } catch {
    return data
  }
}

function isInstant(value: unknown): value is string | Date {
  return value instanceof Date || (typeof value === 'string' && /^\d{4}-\d{2}-\d{2}T/.test(value))
}

function seconds(value: string | Date): string {
  return `${(value instanceof Date ? value.toISOString() : value).slice(0, 19)}Z`
}

/** A message on which this verdict takes effect even after another one. */
function lateVerdict(state: RawMessage['state'], verdict: 'ack' | 'nack'): BrokerRules['deliver'] {
  return (message) =>
    new Proxy(message, {
      get(target, name) {
        if (name === verdict && target.state === state) return () => Promise.resolve(true)
        const value: unknown = Reflect.get(target, name, target)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
}

/** A dead letter whose letters are changed. */
function sending(change: (letter: RawMessage) => RawMessage): BrokerRules['deadLetter'] {
  return (given) =>
    given && {
      ...given,
      publisher: { publish: (name, letters, options) => given.publisher.publish(name, letters.map(change), options) },
    }
}

/** A dead letter whose answers are changed. */
function answering(change: (result: PublishResult) => PublishResult): BrokerRules['deadLetter'] {
  return (given) =>
    given && {
      ...given,
      publisher: {
        async publish(name, letters, options) {
          const results = await given.publisher.publish(name, letters, options)
          return results.map(change)
        },
      },
    }
}

function isRefusal(result: PublishResult): boolean {
  return !result.ok && result.permanent === true
}

function dataless(letter: RawMessage): RawMessage {
  if (letter.attributes['deadletterform'] !== 'envelope') return letter
  return letter.copy(utf8.encode(JSON.stringify({ ...JSON.parse(text.decode(letter.data)), data_base64: '' })))
}

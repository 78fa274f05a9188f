import assert from 'node:assert/strict'
import { type Attributes, Message } from '@ackord/core'
import { BrokerSession, event } from './broker-session.ts'
import type { BrokerScenario } from './broker-world.ts'

const utf8 = new TextEncoder()

/** Messages arrive unchanged. */
export const contentScenarios: readonly BrokerScenario[] = [
  {
    name: 'delivers bytes unchanged: empty, single, all values, Unicode, JSON that a parser would change',
    async run(open) {
      await using session = await BrokerSession.open(open)
      const contents: Readonly<Record<string, Uint8Array>> = {
        none: new Uint8Array(),
        one: Uint8Array.of(0),
        all: Uint8Array.from({ length: 256 }, (_, index) => index),
        unicode: utf8.encode('Grüße 東京 🎵 \u0000 \r\n'),
        json: utf8.encode('{ "amount": 1.0, "big": 12345678901234567890, "twice": 1, "twice": 2 }'),
      }
      const types = { datacontenttype: 'application/json' }
      await session.send(...Object.entries(contents).map(([id, data]) => event(id, types, data)))
      for (const message of await session.read().ack(5)) assertBytes(message.data, contents[String(message.id)])
    },
  },
  {
    name: 'delivers a message of the maximum size unchanged',
    async run(open) {
      await using session = await BrokerSession.open(open)
      const { largest = 1_048_576 } = session.world
      const data = Uint8Array.from({ length: largest }, (_, index) => index % 251)
      await session.send(event('large', {}, data))
      const [message] = await session.read().ack(1)
      assertBytes(message?.data, data)
    },
  },
  {
    name: 'delivers attributes unchanged: Unicode, line breaks, percent signs, quotes, leading and trailing spaces, empty strings',
    async run(open) {
      await using session = await BrokerSession.open(open)
      const sent = event('texts', { ...texts, subject: 'Bestellung Nr. 5 für „Müller“' })
      await session.send(sent)
      const [message] = await session.read().ack(1)
      assert.deepEqual({ ...message?.attributes }, sent.attributes)
    },
  },
  {
    name: 'a timestamp keeps its fraction',
    async run(open) {
      await using session = await BrokerSession.open(open)
      const time = new Date('2026-03-01T10:20:30.456Z')
      await session.send(event('e1', { time }), event('e2', { time: '2026-03-01T10:20:30.456789Z' }))
      const messages = await session.read().ack(2)
      assert.deepEqual(messages.find(({ id }) => id === 'e1')?.time, time)
      assert.equal(messages.find(({ id }) => id === 'e2')?.attributes.time, '2026-03-01T10:20:30.456789Z')
    },
  },
  {
    name: 'delivers a message with 200 attributes, and one without any',
    async run(open) {
      await using session = await BrokerSession.open(open)
      const many = event('many', Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`extension${index}`, `value ${index}`])))
      await session.send(many)
      await session.send(new Message(utf8.encode('bare')))
      const messages = await session.read().ack(2)
      assert.deepEqual({ ...messages.find(({ id }) => id === 'many')?.attributes }, many.attributes)
      const bare = messages.find(({ id }) => id !== 'many')
      assertBytes(bare?.data, utf8.encode('bare'))
    },
  },
]

export const typeScenarios: readonly BrokerScenario[] = [
  {
    name: 'attributes keep their type: numbers, booleans, bytes',
    async run(open) {
      await using session = await BrokerSession.open(open)
      const sent = event('typed', { whole: -7, large: 2 ** 53 - 1, fraction: 0.1, yes: true, no: false, bytes: Uint8Array.of(0, 255) })
      await session.send(sent)
      const [message] = await session.read().ack(1)
      assert.deepEqual({ ...message?.attributes }, sent.attributes)
    },
  },
]

export const nameScenarios: readonly BrokerScenario[] = [
  {
    name: 'attributes may have any name',
    async run(open) {
      await using session = await BrokerSession.open(open)
      const names = [
        'Upper',
        'with space',
        'umläut',
        '東京',
        'a:b',
        'a\r\nb',
        '100%',
        'dash-dot.under_score',
        '__proto',
        '__proto__',
        'constructor',
      ]
      const sent = event('named', Object.fromEntries(names.map((name, index) => [name, `value ${index}`])))
      await session.send(sent)
      const [message] = await session.read().ack(1)
      assert.deepEqual({ ...message?.attributes }, sent.attributes)
    },
  },
]

const texts: Attributes = {
  unicode: 'Grüße 東京 🎵',
  breaks: 'one\r\ntwo\nthree\rfour',
  percent: '100 % of %41 and %0A',
  quotes: `"double" 'single' \\ back`,
  spaces: '  both ends  ',
  tab: '\tin\tbetween\t',
  number: '0123',
  truth: 'true',
  date: '2026-01-01',
  empty: '',
  long: 'x'.repeat(2000),
  z: 'a name of one letter',
  averylongnamethatnobodywouldwritebutthatsomebodyhasallthesame: 'yes',
}

function assertBytes(data: unknown, expected: Uint8Array | undefined): void {
  assert.ok(data instanceof Uint8Array && expected !== undefined)
  assert.ok(Buffer.from(data).equals(expected), `${data.byteLength} bytes came instead of these ${expected.byteLength}`)
}

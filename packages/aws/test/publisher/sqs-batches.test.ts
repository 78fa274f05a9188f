import { Message, type PublishResult, type RawMessage } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { type AwsBatchFailure, type AwsBatchResult, type SqsPublisherOptions, type SqsSendEntry, sqsPublisher } from '../../src/index.ts'
import { event, never, numbered } from '../support/world.ts'

/** What the fake SQS answers for a batch: the failures by the id of the event, or an error for the whole request. */
type Failures = Readonly<Record<string, AwsBatchFailure>>
type Answer = (ids: readonly string[]) => Failures | Error

interface Published {
  readonly results: readonly string[]
  readonly failures: readonly PublishResult[]
  /** The ids of the events in each request that reached SQS. */
  readonly batches: readonly (readonly string[])[]
  readonly entries: readonly SqsSendEntry[]
}

function idIn({ MessageBody: body }: SqsSendEntry): string {
  return (JSON.parse(body) as { id: string }).id
}

async function publish(
  messages: readonly RawMessage[],
  options: SqsPublisherOptions & { readonly to?: string; readonly answer?: Answer } = {},
): Promise<Published> {
  const { to = 'orders', answer = (): Failures => ({}), ...more } = options
  const batches: string[][] = []
  const entries: SqsSendEntry[] = []
  const client = {
    getQueueUrl: async ({ QueueName: name }: { QueueName: string }) => ({ QueueUrl: `https://sqs.test/1/${name}` }),
    async sendMessageBatch({ Entries: sent }: { Entries: SqsSendEntry[] }): Promise<AwsBatchResult> {
      const ids = sent.map(idIn)
      batches.push(ids)
      entries.push(...sent)
      const failures = answer(ids)
      if (failures instanceof Error) throw failures
      const failed = sent.flatMap((entry) => {
        const failure = failures[idIn(entry)]
        return failure === undefined ? [] : [{ ...failure, Id: entry.Id }]
      })
      const isFailed = (id: string) => failed.some(({ Id }) => Id === id)
      return { Successful: sent.filter(({ Id }) => !isFailed(Id)).map(({ Id }) => ({ Id })), Failed: failed }
    },
  }
  const results = await sqsPublisher(client, more).publish(to, messages, { signal: never })
  return { results: results.map(describeResult), failures: results.filter(({ ok }) => !ok), batches, entries }
}

function describeResult(result: PublishResult): string {
  if (result.ok) return 'ok'
  if (result.permanent === true) return 'permanent'
  if (result.tried === false) return 'held back'
  return result.scope === 'destination' ? 'destination' : 'record'
}

const refused: AwsBatchFailure = { Code: 'InvalidParameterValue', Message: 'Not like this.', SenderFault: true }
const internal: AwsBatchFailure = { Code: 'InternalError', Message: 'Try again.', SenderFault: false }

function named(name: string, message = 'No.'): Error {
  return Object.assign(new Error(message), { name })
}

function sized(id: string, bytes: number): RawMessage {
  return new Message(new TextEncoder().encode(`"${'x'.repeat(bytes)}"`), {
    ...event(id).attributes,
    datacontenttype: 'application/json',
  })
}

describe('the messages of a call', () => {
  it('are sent in batches of ten, in their order', async () => {
    const ids = numbered(25)
    const { results, batches } = await publish(ids.map((id) => event(id)))
    expect(results).toEqual(Array(25).fill('ok'))
    expect(batches).toEqual([ids.slice(0, 10), ids.slice(10, 20), ids.slice(20)])
  })

  it('are split so that no batch is larger than one mebibyte', async () => {
    const messages = numbered(6).map((id) => sized(id, 400_000))
    const { results, batches } = await publish(messages)
    expect(results).toEqual(Array(6).fill('ok'))
    expect(batches).toEqual([
      ['m0', 'm1'],
      ['m2', 'm3'],
      ['m4', 'm5'],
    ])
  })

  it('that are larger than the limit fail permanently, with advice, and the others are sent', async () => {
    const { results, failures, batches } = await publish([event('a'), sized('large', 1_048_576), event('b')])
    expect(results).toEqual(['ok', 'permanent', 'ok'])
    expect(batches).toEqual([['a', 'b']])
    const message = expect.stringMatching(/^A message to queue 'orders' is too large\. .* 1048576\. .*claimCheck\(\).*s3Objects\(\)/)
    expect(failures).toMatchObject([{ error: { code: 'ACKORD_PUBLISH_FAILED', retryable: false, message } }])
  })

  it('are measured with their attributes, against the limit of the queue', async () => {
    const message = sized('m', 2000)
    const { entries } = await publish([message])
    const [entry] = entries
    const size =
      Buffer.byteLength(entry?.MessageBody ?? '') +
      Object.entries(entry?.MessageAttributes ?? {}).reduce((sum, [name, { DataType, StringValue }]) => {
        return sum + name.length + DataType.length + StringValue.length
      }, 0)
    expect((await publish([message], { maxMessageSize: size })).results).toEqual(['ok'])
    expect((await publish([message], { maxMessageSize: size - 1 })).results).toEqual(['permanent'])
  })
})

describe('a batch of which SQS accepts a part', () => {
  it('fails only the entries that SQS names: permanently if the message is at fault', async () => {
    const answer: Answer = () => ({ b: refused, c: internal })
    const { results, failures } = await publish(
      ['a', 'b', 'c', 'd'].map((id) => event(id)),
      { answer },
    )
    expect(results).toEqual(['ok', 'permanent', 'destination', 'ok'])
    expect(failures).toMatchObject([
      { error: { message: expect.stringContaining("AWS refused a message to queue 'orders': InvalidParameterValue, Not like this.") } },
      { error: { message: expect.stringContaining('InternalError, Try again.'), cause: { name: 'InternalError' } } },
    ])
  })

  it('ends the call if the destination is at fault: later messages are not sent', async () => {
    const answer: Answer = () => ({ m3: { Code: 'RequestThrottled', Message: 'Slow down.', SenderFault: true } })
    const { results, batches } = await publish(
      numbered(12).map((id) => event(id)),
      { answer },
    )
    expect(results.slice(0, 5)).toEqual(['ok', 'ok', 'ok', 'destination', 'ok'])
    expect(results.slice(10)).toEqual(['destination', 'destination'])
    expect(batches).toHaveLength(1)
  })

  it('fails entries that the answer does not name, because SQS may not have stored them', async () => {
    const client = {
      getQueueUrl: async () => ({ QueueUrl: 'https://sqs.test/1/orders' }),
      sendMessageBatch: async () => ({ Successful: [{ Id: '1' }] }),
    }
    const results = await sqsPublisher(client).publish('orders', [event('a'), event('b')], { signal: never })
    expect(results.map(describeResult)).toEqual(['destination', 'ok'])
  })
})

describe('a batch that SQS refuses as a whole', () => {
  it('because of its content is sent one by one, so that only the message at fault fails', async () => {
    const answer: Answer = (ids) => (ids.includes('bad') ? named('InvalidMessageContents') : {})
    const { results, batches } = await publish(
      ['a', 'bad', 'b'].map((id) => event(id)),
      { answer },
    )
    expect(results).toEqual(['ok', 'permanent', 'ok'])
    expect(batches).toEqual([['a', 'bad', 'b'], ['a'], ['bad'], ['b']])
  })

  it.each([
    ['QueueDoesNotExist', 'does not exist in this account and region'],
    ['AccessDenied', 'AWS did not allow a message'],
    ['KmsDisabled', 'AWS did not allow a message'],
    ['KmsThrottled', 'AWS did not confirm a message'],
    ['RequestThrottled', 'AWS did not confirm a message'],
    ['TimeoutError', 'AWS did not confirm a message'],
  ])('because of the destination fails all of them, and nothing more is sent: %s', async (code, text) => {
    const answer: Answer = () => named(code)
    const { results, failures, batches } = await publish(
      numbered(11).map((id) => event(id)),
      { answer },
    )
    expect(results).toEqual(Array(11).fill('destination'))
    expect(failures[0]).toMatchObject({ error: { message: expect.stringContaining(text) } })
    expect(batches).toHaveLength(1)
  })
})

describe('the messages of a group of a FIFO queue', () => {
  const to = 'orders.fifo'
  const keyed = (id: string, partitionkey: string) => event(id, { partitionkey })

  it('are in separate batches, so that none overtakes one that SQS refuses', async () => {
    const messages = [keyed('a1', 'a'), keyed('a2', 'a'), keyed('b1', 'b'), event('c'), keyed('a3', 'a'), keyed('b2', 'b')]
    const { results, batches } = await publish(messages, { to })
    expect(results).toEqual(Array(6).fill('ok'))
    expect(batches).toEqual([['a1', 'b1', 'c'], ['a2', 'b2'], ['a3']])
  })

  it('share batches if their order may suffer from a refused entry', async () => {
    const { batches } = await publish([keyed('a1', 'a'), keyed('a2', 'a')], { to, strictOrder: false })
    expect(batches).toEqual([['a1', 'a2']])
  })

  it('are held back behind one that SQS may accept later, and not behind one that it will never accept', async () => {
    const answer: Answer = (ids) => (ids[0] === 'a1' ? { b1: refused } : {})
    const messages = [keyed('a1', 'a'), keyed('b1', 'b'), keyed('b2', 'b')]
    expect((await publish(messages, { to, answer })).results).toEqual(['ok', 'permanent', 'ok'])
    const passing: Answer = (ids) => (ids.includes('b1') ? { b1: internal } : {})
    const { results, batches } = await publish(messages, { to, answer: passing })
    expect(results).toEqual(['ok', 'destination', 'destination'])
    expect(batches).toEqual([['a1', 'b1']])
  })

  it('have the partitionkey as their group, as far as SQS allows its characters and its length', async () => {
    const keys = ['customer-7', 'k'.repeat(128), 'k'.repeat(129), 'mit Leerzeichen', 'größe', '🎵', '']
    const { entries } = await publish(
      keys.map((key, index) => keyed(`e${index}`, key)),
      { to },
    )
    const groups = entries.map(({ MessageGroupId: group = '' }) => group)
    expect(groups.slice(0, 2)).toEqual(['customer-7', 'k'.repeat(128)])
    expect(groups.every((group) => /^[A-Za-z0-9!-/:-@[-`{-~]{1,128}$/.test(group))).toBe(true)
    expect(new Set(groups).size).toBe(keys.length)
  })

  it('have a deduplication id of source and id that SQS allows, whatever characters and length the id has', async () => {
    const ids = ['e1', 'e'.repeat(500), 'größe 🎵', '\ud800']
    const messages = ids.flatMap((id) => [event(id), event(id, { source: '/other' })])
    const [first, again] = [await publish(messages, { to }), await publish(messages, { to })]
    const idsOf = ({ entries }: Published) => entries.map(({ MessageDeduplicationId: id = '' }) => id)
    expect(idsOf(first)).toEqual(idsOf(again))
    expect(new Set(idsOf(first)).size).toBe(messages.length)
    expect(idsOf(first).every((id) => /^[A-Za-z0-9!-/:-@[-`{-~]{1,128}$/.test(id))).toBe(true)
  })

  it('have another deduplication id each time that they are rejected, in every form of a dead letter', async () => {
    const letters = [{}, { deadlettertime: '2026-01-01T00:00:00.001Z' }, { deadlettertime: '2026-01-01T00:00:00.002Z' }]
    const short = [{ deadletterform: 'bytes' }, { deadletterform: 'bytes' }]
    const { entries } = await publish(
      [...letters, ...short].map((attributes) => event('poison', attributes)),
      { to },
    )
    expect(new Set(entries.map(({ MessageDeduplicationId: id }) => id)).size).toBe(5)
  })

  it('are never dropped as repeats without an id, or with deduplicate: false', async () => {
    const { id: _, ...anonymous } = event('a').attributes
    const messages = [new Message(new Uint8Array(), anonymous), new Message(new Uint8Array(), anonymous)]
    const unnamed = await publish(messages, { to })
    const replayed = await publish([event('a'), event('a')], { to, deduplicate: false })
    for (const { entries } of [unnamed, replayed]) {
      expect(new Set(entries.map(({ MessageDeduplicationId: deduplication }) => deduplication)).size).toBe(2)
      expect(new Set(entries.map(({ MessageGroupId: group }) => group)).size).toBe(2)
    }
  })
})

it('a message in binary mode whose attributes or data SQS cannot carry fails permanently', async () => {
  const many = event('many', Object.fromEntries(numbered(11).map((name) => [name, 'x'])))
  const bytes = new Message(Uint8Array.of(0, 255), event('bytes').attributes)
  const empty = new Message(new Uint8Array(), event('empty').attributes)
  const blank = event('blank', { note: '' })
  const { results, failures } = await publish([many, bytes, empty, blank], { mode: 'binary' })
  expect(results).toEqual(Array(4).fill('permanent'))
  for (const failure of failures) {
    expect(failure).toMatchObject({ error: { cause: { message: expect.stringContaining("Use mode 'structured'") } } })
  }
})

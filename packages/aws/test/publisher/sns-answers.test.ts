import type { PublishResult, RawMessage } from '@ackord/core'
import { SNS } from '@aws-sdk/client-sns'
import { describe, expect, it } from 'vitest'
import { type SnsClient, type SnsPublisherOptions, snsPublisher } from '../../src/index.ts'
import { startHttpServer } from '../support/http-server.ts'
import { clientSettings, event, never, numbered } from '../support/world.ts'

const topic = 'arn:aws:sns:eu-central-1:000000000000:orders'

interface Entry {
  readonly id: string
  /** The id of the event. */
  readonly event: string
  readonly group: string | null
  readonly size: number
}

interface EntryFailure {
  readonly code: string
  readonly senderFault: boolean
}

/** What SNS answers to a request: an error code for all, or the failures of some entries. `nothing`: it does not name the entry. */
type Answer = string | ((entry: Entry) => EntryFailure | 'nothing' | undefined)

interface Scripted extends AsyncDisposable {
  /** The entries of each request. */
  readonly requests: readonly (readonly Entry[])[]
  publish(messages: readonly RawMessage[], to?: string): Promise<readonly PublishResult[]>
}

/** A publisher whose SNS speaks the real protocol and answers as the test says. */
async function openScripted(answer: (entries: readonly Entry[]) => Answer, options: SnsPublisherOptions = {}): Promise<Scripted> {
  const requests: Entry[][] = []
  const server = await startHttpServer(({ body }, response) => {
    const entries = entriesOf(new URLSearchParams(body.toString()))
    requests.push(entries)
    const said = answer(entries)
    response.setHeader('content-type', 'text/xml')
    if (typeof said === 'string') {
      response.statusCode = said === 'InternalError' ? 500 : 400
      response.end(`<ErrorResponse><Error><Type>Sender</Type><Code>${said}</Code><Message>Said the test.</Message></Error></ErrorResponse>`)
      return
    }
    const [accepted, failed]: [string[], string[]] = [[], []]
    for (const entry of entries) {
      const failure = said(entry)
      if (failure === undefined) accepted.push(`<member><Id>${entry.id}</Id><MessageId>m</MessageId></member>`)
      else if (failure !== 'nothing') {
        const text = `<Code>${failure.code}</Code><Message>Said the test.</Message><SenderFault>${failure.senderFault}</SenderFault>`
        failed.push(`<member><Id>${entry.id}</Id>${text}</member>`)
      }
    }
    const result = `<Successful>${accepted.join('')}</Successful><Failed>${failed.join('')}</Failed>`
    response.end(`<PublishBatchResponse><PublishBatchResult>${result}</PublishBatchResult></PublishBatchResponse>`)
  })
  const client = new SNS(clientSettings(server.url))
  const publisher = snsPublisher(client, options)
  return {
    requests,
    publish: (messages, to = topic) => publisher.publish(to, messages, { signal: never }),
    async [Symbol.asyncDispose]() {
      await publisher.close()
      client.destroy()
      await server[Symbol.asyncDispose]()
    },
  }
}

function entriesOf(parameters: URLSearchParams): Entry[] {
  const entries: Entry[] = []
  for (let index = 1; ; index += 1) {
    const of = (name: string) => parameters.get(`PublishBatchRequestEntries.member.${index}.${name}`)
    const [id, text] = [of('Id'), of('Message')]
    if (id === null || text === null) return entries
    entries.push({ id, event: String(JSON.parse(text).id), group: of('MessageGroupId'), size: Buffer.byteLength(text) })
  }
}

function describeResult(result: PublishResult): string {
  if (result.ok) return 'ok'
  if (result.permanent === true) return 'permanent'
  if (result.tried === false) return 'held back'
  return result.scope ?? 'record'
}

const events = (count: number) => numbered(count).map((id) => event(id))
const allAccepted = () => undefined

describe.concurrent('the answers of SNS', () => {
  it('sends up to ten messages per request', async () => {
    await using sns = await openScripted(() => allAccepted)
    expect(await sns.publish(events(23))).toEqual(Array(23).fill({ ok: true }))
    expect(sns.requests.map(({ length }) => length)).toEqual([10, 10, 3])
    expect(sns.requests.flat().map((entry) => entry.event)).toEqual(numbered(23))
  })

  it('sends up to 256 KiB per request, and with a larger limit of the topic more', async () => {
    const large = numbered(4).map((id) => event(id, { datacontenttype: 'text/plain' }).copy(new TextEncoder().encode('x'.repeat(100_000))))
    await using sns = await openScripted(() => allAccepted)
    await sns.publish(large)
    expect(sns.requests.map(({ length }) => length)).toEqual([1, 1, 1, 1])
    for (const [entry] of sns.requests) expect(entry?.size).toBeGreaterThan(131_072)

    await using larger = await openScripted(() => allAccepted, { maxMessageSize: 1_048_576 })
    await larger.publish(large)
    expect(larger.requests.map(({ length }) => length)).toEqual([4])
  })

  it('reports each message by the answer for its entry', async () => {
    const failures: Record<string, EntryFailure | 'nothing'> = {
      m1: { code: 'InvalidParameter', senderFault: true },
      m2: { code: 'InternalError', senderFault: false },
      m3: 'nothing',
      m4: { code: 'Throttled', senderFault: true },
      m5: { code: 'AuthorizationError', senderFault: true },
      m6: { code: 'KMSAccessDenied', senderFault: true },
      m7: { code: 'KMSThrottling', senderFault: true },
    }
    await using sns = await openScripted(() => (entry) => failures[entry.event])
    const results = await sns.publish(events(9))
    expect(results.map(describeResult)).toEqual([
      ...['ok', 'permanent', 'destination', 'destination', 'destination', 'destination', 'destination', 'destination', 'ok'],
    ])
    const [, refused] = results
    expect(refused).toMatchObject({ error: { message: expect.stringContaining('InvalidParameter, Said the test.. If it is too large') } })
  })

  it.each([
    ['NotFound', 'does not exist in this account and region'],
    ['AuthorizationError', 'AWS did not allow'],
    ['KMSAccessDenied', 'AWS did not allow'],
    ['Throttled', 'AWS did not confirm'],
    ['InternalError', 'AWS did not confirm'],
  ])('takes %s for a fault of the topic, and sends nothing more', async (code, text) => {
    await using sns = await openScripted(() => code)
    const results = await sns.publish(events(12))
    expect(results.map(describeResult)).toEqual(Array(12).fill('destination'))
    expect(results[0]).toMatchObject({ error: { message: expect.stringContaining(text) } })
    expect(sns.requests).toHaveLength(1)
  })

  it.each(['InvalidParameter', 'BatchRequestTooLong', 'ParameterValueInvalid'])(
    'sends the messages of a batch one by one after %s, so that only the one at fault fails',
    async (code) => {
      await using sns = await openScripted((entries) => (entries.some((entry) => entry.event === 'm2') ? code : allAccepted))
      const results = await sns.publish(events(4))
      expect(results.map(describeResult)).toEqual(['ok', 'ok', 'permanent', 'ok'])
      expect(results[2]).toMatchObject({ error: { message: expect.stringContaining('claimCheck() of @ackord/core/payload') } })
      expect(sns.requests.map((entries) => entries.map((entry) => entry.event))).toEqual([
        ['m0', 'm1', 'm2', 'm3'],
        ['m0'],
        ['m1'],
        ['m2'],
        ['m3'],
      ])
    },
  )

  it('sends one message of a group per request to a FIFO topic, and none after one that failed', async () => {
    await using sns = await openScripted(
      () => (entry) => (entry.event === 'a2' ? { code: 'InvalidParameter', senderFault: true } : undefined),
    )
    const of = (group: string) => [1, 2, 3].map((index) => event(`${group}${index}`, { partitionkey: group }))
    expect((await sns.publish([...of('a'), ...of('b')], `${topic}.fifo`)).map(describeResult)).toEqual([
      'ok',
      'permanent',
      'ok',
      'ok',
      'ok',
      'ok',
    ])
    expect(sns.requests.map((entries) => entries.map((entry) => entry.event))).toEqual([
      ['a1', 'b1'],
      ['a2', 'b2'],
      ['a3', 'b3'],
    ])
    expect(sns.requests[0]?.map(({ group }) => group)).toEqual(['a', 'b'])
  })

  it('aborts a request at the time limit', async () => {
    const server = await startHttpServer(() => {})
    await using _server = server
    const client = new SNS(clientSettings(server.url))
    const publisher = snsPublisher(client, { timeout: 200 })
    const [result] = await publisher.publish(topic, events(1), { signal: never })
    expect(result).toMatchObject({ ok: false, scope: 'destination', error: { cause: { message: 'AWS did not answer within 200 ms.' } } })
    client.destroy()
  })
})

describe('the options of snsPublisher()', () => {
  const client: SnsClient = { publishBatch: () => Promise.reject(new Error('not called')) }

  it.each([
    ['topic', { topic: 'orders' }],
    ['mode', { mode: 'raw' }],
    ['filterAttributes', { filterAttributes: 'type' }],
    ['filterAttributes', { filterAttributes: ['a', 'b', 'c', 'd', 'e', 'f', 'g'] }],
    ['filterAttributes', { filterAttributes: ['content-type'] }],
    ['filterAttributes', { filterAttributes: ['ce_id'] }],
    ['deduplicate', { deduplicate: 1 }],
    ['strictOrder', { strictOrder: 'yes' }],
    ['maxMessageSize', { maxMessageSize: 10 }],
    ['timeout', { timeout: 0 }],
    ['tpoic', { tpoic: () => topic }],
  ])('refuse a wrong %s: %o', (name, wrong) => {
    expect(() => snsPublisher(client, wrong as SnsPublisherOptions)).toThrow(
      expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
    )
  })

  it('refuse a lean client', () => {
    expect(() => snsPublisher({ send: () => {} } as unknown as SnsClient)).toThrow('It is an SNSClient')
  })

  it.each(['orders', 'arn:aws:sqs:eu-central-1:000000000000:orders', `${topic}:subscription`])(
    'fail a message to %o, which is no ARN of a topic',
    async (destination) => {
      const [result] = await snsPublisher(client).publish(destination, events(1), { signal: never })
      expect(result).toMatchObject({ ok: false, error: { code: 'ACKORD_PUBLISH_FAILED', cause: { code: 'ACKORD_INVALID_OPTION' } } })
    },
  )
})

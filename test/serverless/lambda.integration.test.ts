import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { lambdaSqs, type SqsEvent, type SqsEventRecord } from '@ackord/aws/lambda'
import { silentLogger } from '@ackord/core'
import { createSchema } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { beforeAll, describe, expect, it } from 'vitest'
import { recordingPublisher } from '../../packages/core/test/support/router-world.ts'
import { openSchema } from '../../packages/sql/test/support/own-schema.ts'
import { bundle } from '../../scripts/bundle.mjs'
import { until } from '../pipeline/until.ts'
import { createFunction, type FunctionOptions, placeOrder } from './lambda-service.ts'

const context = (remaining = 20_000) => ({ getRemainingTimeInMillis: () => remaining })

function record(id: string, data: object = {}, deliveries = 1): SqsEventRecord {
  const command = placeOrder({ id, ...data }, { id: `m-${id}`, source: '/shop', specversion: '1.0', datacontenttype: 'application/json' })
  return {
    messageId: id,
    body: JSON.stringify(command),
    attributes: { ApproximateReceiveCount: String(deliveries) },
    messageAttributes: {},
    eventSourceARN: 'arn:aws:sqs:eu-central-1:123456789012:orders',
  }
}

function eventOf(...ids: readonly string[]): SqsEvent {
  return { Records: ids.map((id) => record(id)) }
}

const failures = (...ids: readonly string[]) => ({ batchItemFailures: ids.map((itemIdentifier) => ({ itemIdentifier })) })

async function openWorld(options: FunctionOptions = {}) {
  const own = await openSchema()
  const pool = own.createPool()
  const database = fromPg(pool, { logger: silentLogger })
  await createSchema(database)
  await own.query('CREATE TABLE placed (id text NOT NULL)')
  await own.query('CREATE TABLE published (id text NOT NULL)')
  const { service, relay } = createFunction(pool, options)
  const ids = async (table: string) => (await own.query(`SELECT id FROM ${table} ORDER BY id`)).map(({ id }) => id as string)
  return {
    ...{ service, relay, schema: own.schema },
    placed: () => ids('placed'),
    published: () => ids('published'),
    outbox: () => own.outbox(),
    async [Symbol.asyncDispose]() {
      await service.close()
      await pool.end()
      await own[Symbol.asyncDispose]()
    },
  }
}

describe('a Lambda function on PostgreSQL', () => {
  it.each(['table', 'log'] as const)(
    'handles each message of a batch once, and publishes its events before it answers (%s)',
    async (mode) => {
      await using world = await openWorld({ mode })
      const handler = lambdaSqs(world.service, { relay: world.relay, logger: silentLogger })
      expect(await handler(eventOf('o1', 'o2', 'o1'), context())).toEqual(failures())
      expect(await handler(eventOf('o2', 'o3'), context())).toEqual(failures())
      expect(await world.placed()).toEqual(['o1', 'o2', 'o3'])
      const published = await world.published()
      expect([published.length, new Set(published).size]).toEqual([3, 3])
      expect(await world.relay.drain()).toMatchObject({ reason: 'empty', published: 0, left: { ready: 0, leased: 0, waiting: 0 } })
    },
  )

  it('handles a batch once that is delivered to two invocations at the same time', async () => {
    await using world = await openWorld()
    const handler = lambdaSqs(world.service, { relay: world.relay, logger: silentLogger })
    const event = eventOf('o1', 'o2', 'o3')
    await Promise.all([handler(event, context()), handler(event, context())])
    expect(await world.placed()).toEqual(['o1', 'o2', 'o3'])
    expect((await world.published()).length).toBe(3)
  })

  it('reports a message that fails, rolls it back, and handles the others', async () => {
    await using world = await openWorld()
    const handler = lambdaSqs(world.service, { relay: world.relay, logger: silentLogger })
    expect(await handler({ Records: [record('o1'), record('bad', { poison: true }), record('o2')] }, context())).toEqual(failures('bad'))
    expect(await world.placed()).toEqual(['o1', 'o2'])
    expect(await handler({ Records: [record('bad')] }, context())).toEqual(failures())
    expect(await world.placed()).toEqual(['bad', 'o1', 'o2'])
  })

  it('publishes a message that can never be handled to the dead letter', async () => {
    await using world = await openWorld()
    const publisher = recordingPublisher()
    const handler = lambdaSqs(world.service, { logger: silentLogger, deadLetter: { publisher, destination: 'orders-dead' } })
    const unreadable = { ...record('bad'), body: record('bad').body.replace('"application/json"', '"application/xml"') }
    expect(await handler({ Records: [unreadable] }, context())).toEqual(failures())
    expect(publisher.calls).toMatchObject([
      { destination: 'orders-dead', messages: [{ attributes: { id: 'm-bad', deadletterdestination: 'orders' } }] },
    ])
  })

  it('answers before the time limit, reports the message that did not end, and has not kept its writes', async () => {
    await using world = await openWorld()
    const handler = lambdaSqs(world.service, { margin: 300, logger: silentLogger })
    const event = { Records: [record('o1'), record('slow', { hangs: true })] }
    expect(await handler(event, context(1500))).toEqual(failures('slow'))
    expect(await world.placed()).toEqual(['o1'])
  })

  it('keeps the events of handled messages in the outbox if they cannot be published', async () => {
    await using world = await openWorld()
    const relay = { drain: () => Promise.reject(new Error('no broker')) }
    const handler = lambdaSqs(world.service, { relay, logger: silentLogger })
    expect(await handler(eventOf('o1'), context())).toEqual(failures())
    expect(await world.outbox()).toBe(1)
    await lambdaSqs(world.service, { relay: world.relay, logger: silentLogger })(eventOf('o1'), context())
    expect(await world.outbox()).toBe(0)
    expect((await world.published()).length).toBe(1)
  })
})

describe('a Lambda function whose process is killed', () => {
  const file = fileURLToPath(new URL(`../../.cache/serverless/${process.pid}.mjs`, import.meta.url))
  beforeAll(() => bundle(fileURLToPath(new URL('lambda-program.ts', import.meta.url)), file))

  /** Resolves to what the process has printed, and the signal that has ended it. */
  async function invoke(invocation: object): Promise<readonly [output: string, signal: string | null]> {
    const child = spawn(process.execPath, [file, JSON.stringify(invocation)], { stdio: ['ignore', 'pipe', 'inherit'] })
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      output += chunk
    })
    const [, signal] = (await once(child, 'close')) as [number | null, string | null]
    return [output, signal]
  }

  it.concurrent.each([
    ['transaction.beforeCommit', 'table'],
    ['message.beforeAck', 'table'],
    ['relay.claimed', 'table'],
    ['relay.published', 'table'],
    ['relay.beforeSettle', 'table'],
    ['relay.published', 'log'],
  ] as const)('at %s handles a redelivery as a duplicate, and loses no event (%s)', async (point, mode) => {
    await using world = await openWorld({ mode })
    const { schema } = world
    const event = eventOf('o1', 'o2')
    expect(await invoke({ schema, event, mode, point })).toEqual(['', 'SIGKILL'])
    const [answer] = await invoke({ schema, event, mode })
    expect(JSON.parse(answer)).toEqual(failures())
    expect(await world.placed()).toEqual(['o1', 'o2'])
    // What the killed relay had claimed can be claimed again when its lease is over.
    await until(async () => {
      await world.relay.drain({ deadline: 5000 })
      return new Set(await world.published()).size === 2
    }, 'both events are published')
  })
})

import { settlePromises, VirtualRuntime } from '@ackord/testkit'
import { expect, it } from 'vitest'
import type { NatsConnection, NatsMessage } from '../../src/client.ts'
import { ConnectionWatch } from '../../src/connection-watch.ts'
import { JetStreamApi } from '../../src/jetstream-api.ts'
import { PullInbox, type PullInboxSettings } from '../../src/source/pull-inbox.ts'

it('requests no more messages and waits no longer than the consumer allows', () => {
  const { inbox, requests } = openInbox({ wanted: () => 100, maxBatch: 40, maxExpires: 4000 })

  expect(requests).toEqual([{ batch: 40, expires: 4e9, idle_heartbeat: 2e9 }])
  inbox.refill()
  inbox.refill()
  expect(requests.map(({ batch }) => batch)).toEqual([40, 40])
})

it('ends after three heartbeats without a message', async () => {
  const { inbox, runtime } = openInbox({ wanted: () => 1 })

  await runtime.advance(14_999)
  expect(inbox.hasEnded).toBe(false)
  await runtime.advance(1)

  expect(inbox.hasEnded).toBe(true)
  expect(await inbox.ended).toMatchObject({ message: 'NATS sent nothing for 15000 ms' })
  expect(runtime.timers).toBe(0)
})

it('expects no sign of life while it asks for nothing', async () => {
  let wanted = 1
  const accept = () => {
    wanted = 0
  }
  const { inbox, runtime, requests, deliver } = openInbox({ wanted: () => wanted, accept })
  deliver({ subject: 'orders', data: new Uint8Array(), reply: '$JS.ACK.orders.billing.1.1.1.1.0' })
  await runtime.advance(17_000)

  wanted = 1
  inbox.refill()
  await runtime.advance(10_000)

  expect(requests).toHaveLength(2)
  expect(inbox.hasEnded).toBe(false)
  await runtime.advance(10_000)
  expect(inbox.hasEnded).toBe(true)
})

it.each([
  [409, 'Exceeded MaxRequestBatch of 10'],
  [409, 'Exceeded MaxRequestExpires of 1s'],
  [400, 'Bad Request - heartbeat value too large'],
  [409, 'Consumer Deleted'],
])('ends with what JetStream says of requests that it will never answer: %i %s', async (code, description) => {
  const { inbox, requests, deliver } = openInbox({ wanted: () => 100 })

  deliver(status(code, description))

  expect(inbox.hasEnded).toBe(true)
  expect(await inbox.ended).toMatchObject({ message: `NATS answered a request for messages with ${code} ${description}` })
  expect(requests).toHaveLength(1)
})

it('sends another request after a pause when too many requests wait', async () => {
  const { inbox, runtime, requests, deliver } = openInbox({ wanted: () => 100 })

  deliver(status(409, 'Exceeded MaxWaiting'))
  await settlePromises()
  expect(requests).toHaveLength(1)
  await runtime.advance(5000)

  expect(requests).toHaveLength(2)
  expect(inbox.hasEnded).toBe(false)
})

interface PullRequest {
  readonly batch: number
  readonly expires: number
  readonly idle_heartbeat: number
}

function openInbox(settings: Partial<PullInboxSettings> & Pick<PullInboxSettings, 'wanted'>) {
  const runtime = new VirtualRuntime()
  const requests: PullRequest[] = []
  let deliver: (message: NatsMessage) => void = () => {}
  const connection: NatsConnection = {
    publish: (_subject, data) => void requests.push(JSON.parse(new TextDecoder().decode(data))),
    request: () => Promise.reject(new Error('nobody answers')),
    subscribe: (_subject, { callback }) => {
      deliver = (message) => callback(null, message)
      return { drain: () => Promise.resolve() }
    },
    flush: () => Promise.resolve(),
    status: async function* () {},
    isClosed: () => false,
    closed: () => new Promise(() => {}),
    info: { max_payload: 1 },
  }
  const inbox = new PullInbox({
    connection,
    watch: ConnectionWatch.of(connection),
    api: new JetStreamApi(connection, ConnectionWatch.of(connection), undefined),
    stream: 'orders',
    consumer: 'billing',
    inboxPrefix: '_INBOX',
    runtime,
    accept: () => {},
    always: false,
    maxBatch: Number.POSITIVE_INFINITY,
    maxExpires: Number.POSITIVE_INFINITY,
    ...settings,
  })
  inbox.open()
  return { inbox, runtime, requests, deliver: (message: NatsMessage) => deliver(message) }
}

function status(code: number, description: string): NatsMessage {
  return { subject: '_INBOX', data: new Uint8Array(), headers: { code, description, get: () => '', keys: () => [] } }
}

import { eventHandler, MemoryBroker, Message, type Metrics, Router, silentLogger } from '@ackord/core'
import { createInboxMiddleware, openInbox } from '@ackord/outbox'
import { VirtualRuntime } from '@ackord/testkit'
import { expect, it } from 'vitest'
import { type DashboardMetrics, dashboardMetrics, type Overview } from '../../src/index.ts'
import { openWorld } from '../support/world.ts'

/** Lets a router with an inbox handle messages: one is a duplicate, one fails at first, one is rejected. */
async function handleSome(metrics: DashboardMetrics, consumer: string): Promise<void> {
  const broker = new MemoryBroker({ logger: silentLogger })
  const known = new Set<string>()
  const inbox = createInboxMiddleware({
    inbox: openInbox({ consumer }),
    store: {
      record:
        (_message, _context, { id }) =>
        async (next, message, context) => {
          if (known.has(id)) return undefined
          const outputs = await next(message, context)
          known.add(id)
          return outputs
        },
    },
    info: { role: 'leasedInbox', resource: broker },
  })
  const messages = ['a', 'b', 'a', 'fails'].map(
    (id) => new Message(new TextEncoder().encode(JSON.stringify({ id })), { id, type: 't', source: '/shop' }),
  )
  let failures = 0
  const router = new Router({ metrics, logger: silentLogger, concurrency: 1 }).use(inbox).handle(
    eventHandler({ type: 't' }, async ({ id }: { readonly id: string }) => {
      if (id === 'fails' && failures++ === 0) throw new Error('not yet')
    }),
  )
  const ended = router.run(broker.source('orders'))
  await broker.publish('orders', messages)
  await expect.poll(() => known.size).toBe(3)
  await router.stop()
  await ended
  await broker.close()
}

it('what each consumer has handled is in the overview, with its duplicates', async () => {
  const metrics = dashboardMetrics()
  for (const consumer of ['mail', 'billing']) await handleSome(metrics, consumer)
  await using world = await openWorld({ metrics })
  const { messages } = (await world.client.get<Overview>('overview')).body

  expect(messages).toMatchObject({
    consumers: ['billing', 'mail'].map((consumer) => ({ consumer, handled: 3, duplicates: 1 })),
    failed: 2,
    rejected: 0,
  })
})

it('an overview without metrics has no messages', async () => {
  await using world = await openWorld()
  expect((await world.client.get<Overview>('overview')).body.messages).toBeUndefined()
})

it('each minute has its own numbers, for 30 minutes', async () => {
  const runtime = new VirtualRuntime()
  const metrics = dashboardMetrics({ runtime })
  for (let count = 0; count < 40; count += 1) {
    metrics.count('ackord.inbox.handled', 1, { consumer: 'billing' })
    await runtime.advance(60_000)
  }
  metrics.count('ackord.inbox.duplicates', 1, { consumer: 'billing' })
  await runtime.advance(60_000)
  metrics.count('ackord.inbox.handled', 5, { consumer: 'billing' })
  const [billing] = metrics.read().consumers

  expect(billing).toMatchObject({ consumer: 'billing', handled: 45, duplicates: 1 })
  expect(billing?.perMinute).toHaveLength(30)
  expect(billing?.perMinute.at(-1)).toEqual({ at: Math.floor(runtime.now() / 60_000 - 1) * 60_000, handled: 0, duplicates: 1 })
  expect(billing?.perMinute.slice(0, -1).every((each) => each.handled === 1)).toBe(true)
})

it('metrics are passed on, and others are not counted', () => {
  const received: unknown[] = []
  const record = (...given: unknown[]) => void received.push(given)
  const forwardTo: Metrics = { count: record, observe: record, gauge: record }
  const metrics = dashboardMetrics({ forwardTo })
  metrics.count('ackord.settled', 2, { verdict: 'rejected' })
  metrics.count('ackord.messages', 1, { type: 't', outcome: 'handled' })
  metrics.observe('ackord.duration', 5, { type: 't' })
  metrics.gauge('ackord.in_flight', 1, {})

  expect(received).toEqual([
    ['ackord.settled', 2, { verdict: 'rejected' }],
    ['ackord.messages', 1, { type: 't', outcome: 'handled' }],
    ['ackord.duration', 5, { type: 't' }],
    ['ackord.in_flight', 1, {}],
  ])
  expect(metrics.read()).toEqual({ consumers: [], failed: 0, rejected: 2 })
  expect(() => dashboardMetrics({ next: forwardTo } as never)).toThrow('next')
  expect(() => dashboardMetrics({ forwardTo: {} as never })).toThrow('metrics')
})

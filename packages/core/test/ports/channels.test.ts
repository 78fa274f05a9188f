import { channel, subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterEach, describe, expect, it } from 'vitest'
import {
  commandHandler,
  defineEvent,
  jsonMarshaler,
  MemoryBroker,
  type Message,
  marshal,
  publishAll,
  Router,
  silentLogger,
} from '../../src/index.ts'
import { announce } from '../../src/ports/channels.ts'

const placeOrder = defineEvent<{ id: string }>('order.place')

interface RouterEvent {
  readonly message: Message
  readonly error?: Error
  readonly decision?: unknown
  readonly verdict?: string
}

const subscriptions: (() => void)[] = []
afterEach(() => {
  for (const end of subscriptions.splice(0)) end()
})

/** The events of a channel from now on. */
function listen(name: string): RouterEvent[] {
  const events: RouterEvent[] = []
  const listener = (event: unknown) => void events.push(event as RouterEvent)
  subscribe(name, listener)
  subscriptions.push(() => unsubscribe(name, listener))
  return events
}

async function handle(...ids: readonly string[]): Promise<void> {
  const broker = new MemoryBroker()
  const failed = new Set<string>()
  const router = new Router({ logger: silentLogger, redeliveryDelay: () => 1 }).handle(
    commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => {
      if (id === 'fails' && !failed.has(id)) {
        failed.add(id)
        throw new Error('not yet')
      }
      return []
    }),
  )
  await publishAll(
    broker,
    'orders',
    ids.map((id) => marshal(placeOrder({ id }, { id, source: '/shop' }), jsonMarshaler)),
  )
  const run = router.run(broker.source('orders'))
  await broker.idle('orders')
  await router.stop()
  await run
}

describe('the channels of a router', () => {
  it('report each message that was handled, and how it was settled', async () => {
    const handled = listen('ackord:router:handled')
    const settled = listen('ackord:router:settled')
    await handle('o-1', 'o-2')
    expect(handled.map(({ message }) => message.id)).toEqual(['o-1', 'o-2'])
    expect(settled.map(({ message, verdict }) => [message.id, verdict])).toEqual([
      ['o-1', 'acked'],
      ['o-2', 'acked'],
    ])
  })

  it('report a failure with its error and what follows, and the nack', async () => {
    const failed = listen('ackord:router:failed')
    const settled = listen('ackord:router:settled')
    await handle('fails')
    expect(failed.map(({ message, error, decision }) => [message.id, error?.message, decision])).toEqual([
      ['fails', 'not yet', { retryAfter: 1 }],
    ])
    expect(settled.map(({ verdict }) => verdict)).toEqual(['nacked', 'acked'])
  })

  it('create no event without subscribers', () => {
    const own = channel('ackord:test:own')
    let created = 0
    const event = () => {
      created += 1
      return {}
    }
    announce(own, event)
    expect(created).toBe(0)
    const events = listen('ackord:test:own')
    announce(own, event)
    expect([created, events]).toEqual([1, [{}]])
  })
})

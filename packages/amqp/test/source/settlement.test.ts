import { recordingLogger } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { type AmqpSourceOptions, amqpSource } from '../../src/index.ts'
import { refuse, type StandInBroker, startStandInBroker } from '../support/stand-in-broker.ts'
import { closeConnection, open, pull, read } from '../support/world.ts'

/** The end of a link at the broker, as far as these tests use it. */
interface BrokerSender {
  readonly source?: { readonly filter?: Record<string, unknown> }
  readonly rcv_settle_mode?: number
  readonly local: { readonly attach: { initial_delivery_count?: number } }
  delivery_count: number
  credit: number
  send(message: object): unknown
  close(error?: object): void
}

interface Settled {
  readonly delivery: { update(settled: boolean, state: unknown): void; readonly remote_state?: object }
}

const message = (id: string, more: object = {}) => ({ message_id: id, subject: 'test.event', body: 'x', ...more })
const outcomes = ['accepted', 'released', 'modified', 'rejected'] as const

/** A source of a broker that sends each new link these messages, and records the outcomes. */
async function withSource(
  broker: StandInBroker,
  options: Partial<AmqpSourceOptions>,
  use: (source: ReturnType<typeof amqpSource>, logger: ReturnType<typeof recordingLogger>) => Promise<void>,
): Promise<void> {
  const connection = open(broker.url)
  const logger = recordingLogger()
  const source = amqpSource(connection, { address: 'orders', logger, backoff: () => 5, ...options })
  try {
    await use(source, logger)
  } finally {
    await source.close()
    await closeConnection(connection)
  }
}

function onLink(broker: StandInBroker, listener: (sender: BrokerSender, number: number) => void): void {
  let number = 0
  broker.container.on('sender_open', ({ sender }) => {
    number += 1
    listener(sender as unknown as BrokerSender, number)
  })
}

/** Settles deliveries as the source asks, as a broker in settlement mode `second` does. Returns the outcomes, which are added as they come. */
function confirm(broker: StandInBroker): string[] {
  const seen: string[] = []
  for (const outcome of outcomes) {
    broker.container.on(outcome, (context) => {
      const { delivery } = context as unknown as Settled
      // rhea announces a modified message as released, too.
      if (outcome === 'released' && 'delivery_failed' in (delivery.remote_state ?? {})) return
      seen.push(outcome)
      delivery.update(true, described(broker, outcome))
    })
  }
  return seen
}

function described(broker: StandInBroker, outcome: (typeof outcomes)[number], fields: object = {}): unknown {
  const { message: encoders } = broker.container as unknown as {
    readonly message: Record<string, (fields: object) => { described(): unknown }>
  }
  return encoders[outcome]?.(fields).described()
}

describe('a broker that confirms outcomes', () => {
  it.concurrent('is asked to, and an ack resolves when it has done so', async () => {
    await using broker = await startStandInBroker()
    let mode: number | undefined
    onLink(broker, (sender) => {
      mode = sender.rcv_settle_mode
      sender.send(message('a'))
    })
    const accepted = new Promise<Settled>((resolve) => broker.container.on('accepted', (context) => resolve(context as unknown as Settled)))
    await withSource(broker, {}, async (source) => {
      const first = await pull(read(source))
      let isAcked = false
      const acking = first.ack().then(() => {
        isAcked = true
      })
      const { delivery } = await accepted
      await new Promise(setImmediate)
      expect(isAcked).toBe(false)
      delivery.update(true, described(broker, 'accepted'))
      await acking
    })
    expect(mode).toBe(1)
  })

  it.concurrent('and does not in time loses the link: the ack rejects, and the message comes again', async () => {
    await using broker = await startStandInBroker()
    onLink(broker, (sender, number) => {
      sender.send(message('a', { delivery_count: number - 1 }))
      if (number === 2) confirm(broker)
    })
    await withSource(broker, { settleTimeout: 30 }, async (source) => {
      const messages = read(source)
      const first = await pull(messages)
      await expect(first.ack()).rejects.toMatchObject({
        code: 'ACKORD_LEASE_LOST',
        cause: { message: expect.stringContaining('within 30 ms') },
      })
      const again = await pull(messages)
      expect([again.id, again.deliveryCount]).toEqual(['a', 2])
      expect(await again.ack()).toBe(true)
    })
  })
})

describe('a broker that refuses a verdict', () => {
  it.concurrent('because the lock of the message has expired makes the ack reject, and delivers further messages', async () => {
    await using broker = await startStandInBroker()
    onLink(broker, (sender) => {
      for (const id of ['late', 'next']) sender.send(message(id))
    })
    let answered = 0
    broker.container.on('accepted', (context) => {
      const { delivery } = context as unknown as Settled
      answered += 1
      const error = { condition: 'com.microsoft:message-lock-lost', description: 'The lock has expired.' }
      delivery.update(true, answered === 1 ? described(broker, 'rejected', { error }) : described(broker, 'accepted'))
    })
    await withSource(broker, { prefetch: 1 }, async (source) => {
      const messages = read(source)
      await expect((await pull(messages)).ack()).rejects.toMatchObject({
        code: 'ACKORD_LEASE_LOST',
        cause: { condition: 'com.microsoft:message-lock-lost' },
      })
      const next = await pull(messages)
      expect([next.id, await next.ack()]).toEqual(['next', true])
    })
  })
})

describe('a verdict', () => {
  it.concurrent.each<[string, Partial<AmqpSourceOptions>, 'ack' | 'nack' | 'reject', string]>([
    ['ack is accepted', {}, 'ack', 'accepted'],
    ['nack is modified, so that it counts', {}, 'nack', 'modified'],
    ['reject without a dead letter is modified', {}, 'reject', 'modified'],
    ["reject with 'discard' is accepted", { deadLetter: 'discard' }, 'reject', 'accepted'],
    ["reject with 'rejected' is rejected, for the dead-letter queue of the broker", { deadLetter: 'rejected' }, 'reject', 'rejected'],
    ["reject with 'undeliverable' is modified", { deadLetter: 'undeliverable' }, 'reject', 'modified'],
  ])('%s', async (_title, options, verdict, expected) => {
    await using broker = await startStandInBroker()
    onLink(broker, (sender) => sender.send(message('a')))
    const seen = confirm(broker)
    await withSource(broker, { maxDelay: 0, ...options }, async (source) => {
      const received = await pull(read(source))
      if (verdict === 'reject') await received.reject(new Error('no'))
      else await received[verdict]()
      expect(seen[0]).toBe(expected)
    })
  })

  it.concurrent('of each neighbour reaches the broker, although rhea would write unlike ones as a range', async () => {
    await using broker = await startStandInBroker()
    onLink(broker, (sender) => {
      for (const id of ['a', 'b', 'c', 'd']) sender.send(message(id))
    })
    const seen = confirm(broker)
    await withSource(broker, { maxDelay: 0 }, async (source) => {
      const messages = read(source)
      const [a, b, c, d] = [await pull(messages), await pull(messages), await pull(messages), await pull(messages)]
      await Promise.all([a.ack(), b.nack(), c.ack(), d.nack()])
    })
    expect(seen).toEqual(['accepted', 'modified', 'accepted', 'modified'])
  })
})

describe('a link that the broker', () => {
  it.concurrent.each(['amqp:not-found', 'amqp:unauthorized-access', 'amqp:not-allowed'])(
    'refuses with %s at first ends the source with advice',
    async (condition) => {
      await using broker = await startStandInBroker()
      onLink(broker, (sender) => refuse(sender, condition, 'not this one'))
      await withSource(broker, {}, async (source) => {
        await expect(pull(read(source))).rejects.toMatchObject({
          code: 'ACKORD_SOURCE_FAILED',
          message: expect.stringMatching(/^'orders' cannot be read: .*not this one/),
        })
      })
    },
  )

  it.concurrent('detaches is attached again, and the log says so once', async () => {
    await using broker = await startStandInBroker()
    confirm(broker)
    const links: BrokerSender[] = []
    onLink(broker, (sender, number) => {
      links.push(sender)
      if (number === 2 || number === 3) refuse(sender, 'amqp:not-found', 'it is being moved')
      else sender.send(message(`m${number}`))
    })
    await withSource(broker, {}, async (source, logger) => {
      const messages = read(source)
      const first = await pull(messages)
      links[0]?.close({ condition: 'amqp:link:detach-forced', description: 'maintenance' })
      const second = await pull(messages)
      expect([first.id, second.id]).toEqual(['m1', 'm4'])
      await expect(first.ack()).rejects.toMatchObject({ code: 'ACKORD_LEASE_LOST' })
      expect(await second.ack()).toBe(true)
      expect(logger.at('warn').map(({ text }) => text)).toEqual([expect.stringContaining('It is attached again')])
    })
  })

  it.concurrent('counts from another number gives no more messages than the prefetch, also when the count begins again at zero', async () => {
    // As RabbitMQ 4.0 does.
    const initial = 2 ** 32 - 4
    await using broker = await startStandInBroker()
    confirm(broker)
    onLink(broker, (sender) => {
      sender.local.attach.initial_delivery_count = initial
      sender.delivery_count = initial
    })
    const credits: number[] = []
    let sent = 0
    broker.container.on('sender_flow', (context) => {
      const { sender } = context as unknown as { readonly sender: BrokerSender }
      // rhea does not begin again at zero.
      if (sender.delivery_count >= 2 ** 32) {
        sender.delivery_count -= 2 ** 32
        sender.credit += 2 ** 32
      }
      credits.push(sender.credit)
      for (let room = sender.credit; room > 0 && sent < 8; room -= 1, sent += 1) sender.send(message(`m${sent}`))
    })
    await withSource(broker, { prefetch: 2 }, async (source) => {
      const messages = read(source)
      const seen: unknown[] = []
      while (seen.length < 8) {
        const received = await pull(messages)
        seen.push(received.id)
        await received.ack()
      }
      expect(seen).toEqual(['m0', 'm1', 'm2', 'm3', 'm4', 'm5', 'm6', 'm7'])
    })
    expect(Math.max(...credits)).toBe(2)
    expect(Math.min(...credits)).toBeGreaterThanOrEqual(0)
  })
})

describe('a session of Service Bus', () => {
  it.concurrent.each<[string | true, string | null]>([
    ['customer-7', 'customer-7'],
    [true, null],
  ])('%o is a filter of the link', async (session, expected) => {
    await using broker = await startStandInBroker()
    let filter: Record<string, unknown> | undefined
    confirm(broker)
    onLink(broker, (sender) => {
      filter = sender.source?.filter
      sender.send(message('a', { group_id: 'customer-7' }))
    })
    await withSource(broker, { session, order: 'perKey' }, async (source) => {
      const received = await pull(read(source))
      expect(received.partitionKey).toBe('customer-7')
      expect(await received.ack()).toBe(true)
    })
    expect(filter).toEqual({ 'com.microsoft:session-filter': expected })
  })
})

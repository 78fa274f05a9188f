import { type Runtime, systemRuntime } from '@ackord/core'
import { recordingLogger, VirtualRuntime } from '@ackord/testkit'
import rhea from 'rhea'
import { describe, expect, it } from 'vitest'
import { ChannelNumbers } from '../src/channel-numbers.ts'
import { amqpPublisher, amqpSource } from '../src/index.ts'
import { type StandInBroker, startStandInBroker } from './support/stand-in-broker.ts'
import { closeConnection, event, never, open, pull, read } from './support/world.ts'

const numberOf = (session: object) => (session as { readonly local: { readonly channel: number } }).local.channel
const capacity = { incoming: 8, outgoing: 8 }

function opened() {
  const connection = rhea.create_container().create_connection({ port: 1 })
  const numbers = ChannelNumbers.of(connection)
  return {
    open: (now: number) => numbers.createSession(capacity, now),
    end(session: ReturnType<typeof numbers.createSession>, now: number) {
      session.remove()
      numbers.ended(session, now)
    },
  }
}

describe('the channel number of a session', () => {
  it('is the lowest that is free', () => {
    const { open } = opened()
    expect([open(0), open(0), open(0)].map(numberOf)).toEqual([0, 1, 2])
  })

  it('is not that of a session that ended less than a second ago', () => {
    const { open, end } = opened()
    const [first, second] = [open(0), open(0)]
    end(first, 0)
    const third = open(999)
    expect(numberOf(third)).toBe(2)
    expect(numberOf(second)).toBe(1)
    expect(numberOf(open(1000))).toBe(0)
  })

  it('is the one that has rested longest when all below 61 were used within a second', () => {
    const { open, end } = opened()
    const sessions = Array.from({ length: 61 }, () => open(0))
    for (const [index, session] of sessions.entries()) end(session, index === 7 ? 0 : 100 + index)
    // Ended again later, so that its first end does not count.
    const again = sessions.at(7)
    if (again !== undefined) end(again, 300)
    expect([open(400), open(400), open(400)].map(numberOf)).toEqual([0, 1, 2])
    expect(numberOf(open(2000))).toBe(3)
  })

  it('is not occupied by what was tried', () => {
    const { open, end } = opened()
    for (let round = 0; round < 200; round += 1) end(open(round), round)
    expect(numberOf(open(10_000))).toBe(0)
    expect(numberOf(open(10_000))).toBe(1)
  })
})

/** The broker answers no beginning of a session until the returned function is called. Resolves when one was ignored. */
function ignoreSessions(broker: StandInBroker): { readonly ignored: Promise<void>; answer(): void } {
  let isSilent = true
  let onIgnored: () => void = () => {}
  const ignored = new Promise<void>((resolve) => {
    onIgnored = resolve
  })
  broker.container.on('connection_open', ({ connection }) => {
    const server = connection as unknown as { on_begin(frame: unknown): void; on_attach(frame: unknown): void }
    const { on_begin: begin } = server
    const ended = ['on_attach', 'on_detach', 'on_end'] as const
    const handlers = server as unknown as Record<(typeof ended)[number], (frame: { readonly channel: number }) => void>
    const silent = new Set<number>()
    server.on_begin = (frame) => {
      if (!isSilent) return begin.call(server, frame)
      silent.add((frame as { readonly channel: number }).channel)
      onIgnored()
    }
    for (const name of ended) {
      const handle = handlers[name]
      handlers[name] = (frame) => {
        if (!silent.has(frame.channel)) handle.call(server, frame)
      }
    }
  })
  return {
    ignored,
    answer() {
      isSilent = false
    },
  }
}

/** The clock of a test, with real time for what is not waited for. */
function testRuntime(clock: VirtualRuntime): Runtime {
  return { ...systemRuntime, monotonic: clock.monotonic, setTimeout: clock.setTimeout }
}

describe('a link that the broker does not answer', () => {
  it('is given up by a publisher, whose next call attaches another one', async () => {
    await using broker = await startStandInBroker()
    const silence = ignoreSessions(broker)
    broker.container.on('message', ({ delivery }) => delivery?.accept())
    const clock = new VirtualRuntime()
    const connection = open(broker.url)
    const publisher = amqpPublisher(connection, { logger: recordingLogger(), runtime: testRuntime(clock) })
    const first = publisher.publish('orders', [event('a')], { signal: never })
    await silence.ignored
    await clock.advance(5000)
    expect(await first).toMatchObject([{ ok: false, scope: 'destination' }])
    silence.answer()
    await clock.advance(5000)
    expect(await publisher.publish('orders', [event('a')], { signal: never })).toEqual([{ ok: true }])
    await advanceUntil(clock, publisher.close())
    await closeConnection(connection)
  })

  it('is given up by a source, which attaches another one', async () => {
    await using broker = await startStandInBroker()
    const silence = ignoreSessions(broker)
    broker.container.on('sender_open', ({ sender }) => sender?.send({ message_id: 'a', subject: 'test.event', body: 'x' }))
    const clock = new VirtualRuntime()
    const connection = open(broker.url)
    const logger = recordingLogger()
    const source = amqpSource(connection, { address: 'orders', logger, backoff: () => 5, runtime: testRuntime(clock) })
    const pulling = pull(read(source))
    await silence.ignored
    silence.answer()
    await clock.advance(10_000)
    expect(await advanceUntil(clock, pulling)).toMatchObject({ attributes: { id: 'a' } })
    await advanceUntil(clock, source.close())
    await closeConnection(connection)
  })
})

/** Lets the time pass until the promise is settled. */
async function advanceUntil<T>(clock: VirtualRuntime, promise: Promise<T>): Promise<T> {
  let isSettled = false
  const settled = promise.finally(() => {
    isSettled = true
  })
  while (!isSettled) await clock.advance(5)
  return await settled
}

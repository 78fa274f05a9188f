import {
  afterCommit,
  commandHandler,
  defineEvent,
  jsonMarshaler,
  Message,
  marshal,
  type Publisher,
  Router,
  type Source,
  silentLogger,
} from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { sqlOutbox, transactional } from '@ackord/sql'
import { fromPg, pgNotifications } from '@ackord/sql/postgres'
import pg from 'pg'
import { percentile } from '../figures.ts'
import { destination, postgresUrl, type RelayWorld } from './world.ts'

const placeOrder = defineEvent<{ id: string }>('order.place')
const orderPlaced = defineEvent<{ orderId: string }>('order.placed')

interface Latency {
  readonly p50: number
  readonly p99: number
}

/** The time from the commit of a message to the publish of its event, at a fixed rate per second. `apart`: the relay uses another pool, as in another process. */
export async function latency(
  world: RelayWorld,
  { perSecond, seconds, apart }: { readonly perSecond: number; readonly seconds: number; readonly apart: boolean },
): Promise<Latency> {
  const writing = world.createPool()
  const relaying = apart ? world.createPool() : writing
  const committed = new Map<string, number>()
  const published: { readonly id: string; readonly at: number }[] = []
  const publisher: Publisher = {
    async publish(_, messages) {
      const at = performance.now()
      for (const { subject: id = '' } of messages) published.push({ id, at })
      return messages.map(() => ({ ok: true }))
    },
  }
  const listen = () => new pg.Client(postgresUrl)
  const outbox = sqlOutbox(fromPg(relaying), { logger: silentLogger, ...(apart ? { notifications: pgNotifications(listen) } : {}) })
  const relay = new Relay(outbox, { publisher, logger: silentLogger }).start()
  try {
    const database = fromPg(writing, { notify: apart })
    const router = new Router({ concurrency: 16, logger: silentLogger })
      .use(transactional(database, { inbox: { consumer: `latency-${apart}` }, outbox: { destination } }))
      .handle(
        commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }, context) => {
          afterCommit(context, () => void committed.set(id, performance.now()))
          return [orderPlaced({ orderId: id }, { subject: id })]
        }),
      )
    const count = perSecond * seconds
    await router.run(steadily(perSecond, count))
    while (published.length < count) await new Promise((resolve) => setTimeout(resolve, 10))
  } finally {
    await relay.stop()
    await writing.end()
    if (relaying !== writing) await relaying.end()
  }
  // A relay on another connection may see a commit before its answer is read here.
  const latencies = published.map(({ id, at }) => Math.max(0, at - (committed.get(id) ?? Number.NaN)))
  if (latencies.some(Number.isNaN)) throw new Error('An event was published although its message was never committed.')
  return { p50: percentile(latencies, 0.5), p99: percentile(latencies, 0.99) }
}

let sent = 0

/** Yields messages at an even rate, whether or not the previous ones are done. */
function steadily(perSecond: number, count: number): Source {
  return {
    async *messages() {
      const start = performance.now()
      for (let index = 0; index < count; index += 1) {
        const wait = start + (index * 1000) / perSecond - performance.now()
        if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait))
        sent += 1
        const attributes = { id: `m-${sent}`, source: '/bench', specversion: '1.0' }
        const { data, attributes: complete } = marshal(placeOrder({ id: `o-${sent}` }, attributes), jsonMarshaler)
        yield new Message(data, complete, { acking: { ack() {}, nack: (error) => fail(error), reject: (error) => fail(error) } })
      }
    },
  }
}

function fail(error: unknown): never {
  throw error
}

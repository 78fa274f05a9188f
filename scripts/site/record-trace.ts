import { setTimeout as pause } from 'node:timers/promises'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect as connectNats } from '@nats-io/transport-node'
import { connect as connectRabbitmq } from 'amqplib'
import pg from 'pg'
import { type PrintedSpan, ShopProcess } from '../../test/telemetry/run-shop.ts'
import { ownName } from '../test-run.mjs'

const orders = 60
const spansPerOrder = 5
const limit = 60_000

/** Runs the two processes of the shop, `program`, and resolves to the spans of one of many orders. Names of destinations have no prefix. */
export async function recordTrace(program: string): Promise<readonly PrintedSpan[]> {
  const name = `ackord-trace-${ownName()}`
  await using servers = await openServers(name)
  const [shopSchema, ordersSchema] = servers.schemas
  await using consumer = new ShopProcess(program, { TRACED_ROLE: 'orders', TRACED_NAME: name, TRACED_SCHEMA: ordersSchema })
  await consumer.ready
  await using shop = new ShopProcess(program, { TRACED_ROLE: 'shop', TRACED_NAME: name, TRACED_SCHEMA: shopSchema })
  const port = await shop.ready
  const spans = () => [...shop.spans, ...consumer.spans]
  const end = performance.now() + limit
  const recorded: (readonly PrintedSpan[])[] = []
  while (recorded.length < orders) {
    const known = new Set(spans())
    await fetch(`http://127.0.0.1:${port}/orders`, { method: 'POST', headers: { 'x-order': `o-${recorded.length}` } })
    while (spans().length < known.size + spansPerOrder) {
      if (performance.now() > end) throw new Error(`An order has ${spans().length - known.size} spans, and no others after ${limit} ms.`)
      await pause(5)
    }
    recorded.push(spans().filter((span) => !known.has(span)))
  }
  return typical(recorded).map((span) => ({ ...span, span: span.span.replace(`${name}-`, '') }))
}

/** The order of median duration. The first half opens connections and compiles code. Those with a record that is older than the span that created it are left out: SDKs round the beginning of a span to milliseconds. */
function typical(recorded: readonly (readonly PrintedSpan[])[]): readonly PrintedSpan[] {
  const plausible = recorded.slice(orders / 2).filter((spans) =>
    spans.every(({ start, links, attributes }) => {
      const stored = start - Number(attributes['ackord.outbox.oldest_age'] ?? 0) * 1000
      return spans.filter(({ spanId }) => links.includes(spanId)).every((creator) => stored > creator.start)
    }),
  )
  const sorted = plausible.toSorted((one, other) => durationOf(one) - durationOf(other))
  const median = sorted[Math.floor(sorted.length / 2)]
  if (median === undefined) throw new Error('No order has plausible times.')
  return median
}

function durationOf(spans: readonly PrintedSpan[]): number {
  return Math.max(...spans.map(({ end }) => end)) - Math.min(...spans.map(({ start }) => start))
}

interface Servers extends AsyncDisposable {
  readonly schemas: readonly [string, string]
}

async function openServers(name: string): Promise<Servers> {
  const { POSTGRES_URL = 'postgres://postgres@127.0.0.1:5432/test', RABBITMQ_URL = 'amqp://guest:guest@127.0.0.1:5672' } = process.env
  const postgres = new pg.Client(POSTGRES_URL)
  await postgres.connect()
  const nats = await connectNats({ servers: process.env['NATS_URL'] ?? 'nats://127.0.0.1:4222' })
  const { streams } = await jetstreamManager(nats)
  const schemas = [`ackord_${ownName()}`, `ackord_${ownName()}`] as const
  for (const schema of schemas) await postgres.query(`CREATE SCHEMA ${schema}`)
  await streams.add({ name: `${name}-placed`, subjects: [`${name}-placed`] })
  return {
    schemas,
    async [Symbol.asyncDispose]() {
      for (const schema of schemas) await postgres.query(`DROP SCHEMA ${schema} CASCADE`)
      await postgres.end()
      await streams.delete(`${name}-placed`)
      await nats.close()
      const rabbitmq = await connectRabbitmq(RABBITMQ_URL)
      const channel = await rabbitmq.createChannel()
      await channel.deleteQueue(`${name}-orders`)
      await rabbitmq.close()
    },
  }
}

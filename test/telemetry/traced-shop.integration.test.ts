import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect as connectNats } from '@nats-io/transport-node'
import { connect as connectRabbitmq } from 'amqplib'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openSchema } from '../../packages/sql/test/support/own-schema.ts'
import { bundle } from '../../scripts/bundle.mjs'
import { ownName } from '../../scripts/test-run.mjs'
import { until } from '../pipeline/until.ts'
import { type PrintedSpan, ShopProcess } from './run-shop.ts'

// Below this folder, whose packages it needs.
const file = fileURLToPath(new URL(`../.cache/traced-shop-${process.pid}.mjs`, import.meta.url))
beforeAll(() => bundle(fileURLToPath(new URL('traced-shop.ts', import.meta.url)), file))
afterAll(() => {
  for (const each of [file, `${file}.map`]) rmSync(each, { force: true })
})

it('an order is one connected graph of spans through HTTP, an outbox, RabbitMQ, an inbox and outbox, and NATS, across two processes', async () => {
  await using shopSchema = await openSchema()
  await using ordersSchema = await openSchema()
  const name = `ackord-test-${ownName()}`
  const nats = await connectNats({ servers: process.env['NATS_URL'] ?? 'nats://127.0.0.1:4222' })
  const streams = (await jetstreamManager(nats)).streams
  await streams.add({ name: `${name}-placed`, subjects: [`${name}-placed`] })
  const spans: PrintedSpan[] = []
  try {
    await using orders = new ShopProcess(file, { TRACED_ROLE: 'orders', TRACED_NAME: name, TRACED_SCHEMA: ordersSchema.schema })
    await orders.ready
    await using shop = new ShopProcess(file, { TRACED_ROLE: 'shop', TRACED_NAME: name, TRACED_SCHEMA: shopSchema.schema })
    const port = await shop.ready
    await fetch(`http://127.0.0.1:${port}/orders`, { method: 'POST', headers: { 'x-order': 'o-1' } })
    await until(async () => shop.confirmed.length === 1, 'the order is confirmed')
    await until(async () => shop.spans.length + orders.spans.length >= 5, 'all spans have ended')
    spans.push(...shop.spans, ...orders.spans)
  } finally {
    await streams.delete(`${name}-placed`)
    await nats.close()
    const rabbitmq = await connectRabbitmq(process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672')
    const channel = await rabbitmq.createChannel()
    await channel.deleteQueue(`${name}-orders`)
    await rabbitmq.close()
  }
  expect(
    spans
      .map(({ service, kind, span, attributes }) => [service, kind, span.replace(name, ''), attributes['messaging.system.name']])
      .toSorted(),
  ).toEqual(
    [
      ['shop', 'SERVER', 'POST /orders', undefined],
      ['shop', 'CLIENT', 'send -orders', 'rabbitmq'],
      ['orders', 'CONSUMER', 'process -orders', 'rabbitmq'],
      ['orders', 'CLIENT', 'send -placed', 'nats'],
      ['shop', 'CONSUMER', 'process -placed', 'nats'],
    ].toSorted(),
  )
  expect(components(spans)).toBe(1)
  // Without its links the graph would fall apart.
  expect(components(spans.map((span) => ({ ...span, links: [] })))).toBe(5)
}, 120_000)

/** The number of parts of the graph of spans, joined by parents and links. */
function components(spans: readonly PrintedSpan[]): number {
  const group = new Map(spans.map(({ spanId }) => [spanId, spanId]))
  const rootOf = (id: string): string => {
    const next = group.get(id)
    return next === undefined || next === id ? id : rootOf(next)
  }
  for (const { spanId, parentId, links } of spans) {
    for (const other of parentId === undefined ? links : [parentId, ...links])
      if (group.has(other)) group.set(rootOf(spanId), rootOf(other))
  }
  return new Set(spans.map(({ spanId }) => rootOf(spanId))).size
}

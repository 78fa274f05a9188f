import { randomUUID } from 'node:crypto'
import { type Handler, Message, type Middleware, Router, rootContext, silentLogger } from '@ackord/core'
import { probe } from '@ackord/core/internal'
import { ratios, spread } from './figures.ts'
import { rateOf, runRounds } from './rounds.ts'

const acking = { ack() {}, nack() {}, reject() {} }
const order = { orderId: 'o-1', quantity: 3 }

async function* messages(count: number): AsyncGenerator<Message> {
  for (let index = 0; index < count; index += 1) {
    yield new Message(order, { id: `m-${index}`, type: 'order.place', source: '/bench', specversion: '1.0' }, { acking })
  }
}

/** Returns a complete event, as hand-written code would: with an id and the time. */
const wholeEvent: Handler = {
  type: 'order.place',
  async handle(message) {
    const attributes = { id: randomUUID(), type: 'order.placed', source: '/bench', specversion: '1.0', time: new Date().toISOString() }
    return [new Message(message.data, attributes)]
  },
}

/** The minimal handler with an output: the remaining time is the router's. */
const constantEvent: Handler = {
  type: 'order.place',
  async handle(message) {
    const attributes = { id: `${message.id}-1`, type: 'order.placed', source: '/bench', specversion: '1.0', time: '2026-01-01T00:00:00Z' }
    return [new Message(message.data, attributes)]
  },
}

/** The number of probes that a message and its event pass, with a store and a relay. */
const probesOfAll = 13

/** The same handler with as many additional probes as the whole path has: as in production, each is a call without a hook. */
function withProbes(handler: Handler): Handler {
  return {
    ...handler,
    handle(message, context) {
      for (let count = 0; count < probesOfAll; count += 1) {
        if (probe('bench') !== undefined) throw new Error('A probe hook is installed.')
      }
      return handler.handle(message, context)
    },
  }
}

const passThrough: Middleware = (next) =>
  async function pass(message, context) {
    return await next(message, context)
  }

async function bareLoop(count: number, handler: Handler): Promise<number> {
  const context = rootContext()
  let outputs = 0
  for await (const message of messages(count)) {
    outputs += (await handler.handle(message, context)).length
    await message.ack()
  }
  return outputs
}

async function throughRouter(count: number, handler: Handler, ambient: boolean): Promise<number> {
  const router = new Router({ ambient, logger: silentLogger })
  router.use(passThrough, passThrough, passThrough).handle(handler)
  let outputs = 0
  for await (const _output of router.pipe(messages(count))) outputs += 1
  return outputs
}

/**
 * The router against a plain loop with the same handler and the same ack, in one process. The plain loop and the router with an explicit context come first:
 * once the ambient storage is in use, Node 20 tracks every promise of the process, which would slow down the plain loop and flatter the ratios.
 */
async function compare(handler: Handler): Promise<Record<string, number | string>> {
  const options = { rounds: 7, count: 100_000 }
  const probed = withProbes(handler)
  const explicit = await runRounds(
    {
      bare: (count) => rateOf(count, () => bareLoop(count, handler)),
      explicit: (count) => rateOf(count, () => throughRouter(count, handler, false)),
      probed: (count) => rateOf(count, () => throughRouter(count, probed, false)),
    },
    options,
  )
  const ambient = await runRounds({ router: (count) => rateOf(count, () => throughRouter(count, handler, true)) }, options)
  return {
    node: process.versions.node,
    ...spread('router_per_s', ambient.of('router')),
    ...spread('explicit_per_s', explicit.of('explicit')),
    ...spread('bare_loop_per_s', explicit.of('bare')),
    ...spread('ratio', ratios(ambient.of('router'), explicit.of('bare'))),
    ...spread('explicit_ratio', explicit.ratios('explicit', 'bare')),
    ...spread('probe_ratio', explicit.ratios('probed', 'explicit')),
  }
}

/** The heap after `total` messages through one router, in steps; if it stays flat, nothing is kept per message. */
async function memory(total: number): Promise<Record<string, number | boolean>> {
  const heaps: number[] = []
  const step = total / 5
  const router = new Router({ logger: silentLogger })
  router.use(passThrough).handle(constantEvent)
  let seen = 0
  for await (const _output of router.pipe(messages(total))) {
    seen += 1
    if (seen % step === 0) heaps.push(usedHeap())
  }
  const [first = 0, ...later] = heaps
  const grownMb = Math.max(...later) / 1e6 - first / 1e6
  return { messages: seen, heap_after_first_fifth_mb: twoDigits(first / 1e6), grown_mb: twoDigits(grownMb), flat: grownMb < 5 }
}

function usedHeap(): number {
  if (globalThis.gc === undefined) throw new Error('Run node with --expose-gc to measure memory.')
  globalThis.gc()
  return process.memoryUsage().heapUsed
}

function twoDigits(value: number): number {
  return Math.round(value * 100) / 100
}

export const coreVariants = {
  constant: 'with a handler that does next to nothing',
  memory: 'the heap over five million messages',
} as const

/** Each variant needs its own process, because their order within one process matters. */
export async function core(variant: string | undefined): Promise<Record<string, unknown>> {
  if (variant === 'memory') return await memory(5_000_000)
  return await compare(variant === 'constant' ? constantEvent : wholeEvent)
}

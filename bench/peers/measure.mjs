// @ts-check
import { setImmediate, setTimeout } from 'node:timers/promises'
import { percentile } from '@ackord/bench/figures'
import { connections, createOrders } from './contestant.mjs'
import { holdSnapshot } from './postgres.mjs'

/** Milliseconds after which a measurement fails, because a contestant is stuck. */
const deadline = 180_000

/** Takes a backlog with a handler that does nothing. @param {import('./contestant.mjs').Session} session @param {number} count @returns {Promise<number>} messages per second */
export async function noop(session, count) {
  return await handleAll(session, count, 0)
}

/** Handles a backlog. @param {import('./contestant.mjs').Session} session @param {number} count @returns {Promise<number>} messages per second, until all are finished */
export async function drain(session, count) {
  const rate = await handleAll(session, count, count)
  const orders = await session.orders()
  const { events } = await session.state()
  if (orders !== count || events !== count) throw new Error(`Of ${count} orders ${orders} were stored, and ${events} events were created.`)
  return rate
}

/** @param {import('./contestant.mjs').Session} session @param {number} count @param {number} stored the number of orders that handlers store */
async function handleAll(session, count, stored) {
  await session.fill(createOrders(count))
  globalThis.gc?.()
  let received = 0
  const start = performance.now()
  await session.start(() => {
    received += 1
  })
  await until(() => received >= count)
  // The state is read only now, so that reading it does not slow the contestant down.
  await finished(session, stored)
  const seconds = (performance.now() - start) / 1000
  if (received !== count) throw new Error(`Of ${count} orders ${received} were received.`)
  return count / seconds
}

/**
 * Handles a part of a backlog, which was stored before.
 *
 * @param {import('./contestant.mjs').Session} session
 * @param {number} count
 * @returns {Promise<number>} committed orders per second
 */
export async function backlog(session, count) {
  const before = await session.orders()
  globalThis.gc?.()
  const start = performance.now()
  await session.start(() => {})
  let done = 0
  // Not when they are received: workers fetch different numbers of messages in advance.
  await until(async () => {
    done = (await session.orders()) - before
    return done >= count
  }, 20)
  return done / ((performance.now() - start) / 1000)
}

/** Stores messages on all connections. @param {import('./contestant.mjs').Session} session @param {number} count @returns {Promise<number>} transactions per second */
export async function append(session, count) {
  const { append: store } = session
  if (store === undefined) throw new Error('This contestant cannot append.')
  const orders = createOrders(count)
  globalThis.gc?.()
  const start = performance.now()
  const writer = async () => {
    for (let order = orders.pop(); order !== undefined; order = orders.pop()) await store(order)
  }
  await Promise.all(Array.from({ length: connections }, writer))
  const seconds = (performance.now() - start) / 1000
  const { waiting } = await session.state()
  if (waiting !== count) throw new Error(`${count} messages were stored, but ${waiting} are waiting.`)
  return count / seconds
}

/**
 * The latency while another transaction keeps an old snapshot, at the end of that time: dead rows pile up meanwhile.
 *
 * @param {import('./contestant.mjs').Session} session
 * @param {{ perSecond: number, seconds: number }} load
 */
export async function snapshot(session, load) {
  const release = await holdSnapshot()
  try {
    return await latency(session, load, 5 / 6)
  } finally {
    await release()
  }
}

/**
 * The time from the commit of a message to the call of its handler, at a steady rate.
 *
 * @param {import('./contestant.mjs').Session} session
 * @param {{ perSecond: number, seconds: number }} load
 * @param {number} [ignored] the first part of the time, which does not count
 * @returns {Promise<{ p50: number, p99: number }>} in milliseconds
 */
export async function latency(session, { perSecond, seconds }, ignored = 0) {
  /** @type {Map<string, number>} */
  const committed = new Map()
  /** @type {Map<string, number>} */
  const received = new Map()
  await session.start((id) => {
    received.set(id, performance.now())
  })
  const orders = createOrders(perSecond * seconds)
  globalThis.gc?.()
  const start = performance.now()
  /** @type {Promise<void>[]} */
  const sending = []
  for (const [index, order] of orders.entries()) {
    const wait = start + (index * 1000) / perSecond - performance.now()
    if (wait > 0) await setTimeout(wait)
    else await setImmediate()
    sending.push(session.send(order).then(() => void committed.set(order.id, performance.now())))
  }
  await Promise.all(sending)
  await until(() => received.size >= orders.length)
  await finished(session, orders.length)
  // A worker on another connection may see a commit before its answer is read here.
  const latencies = orders
    .slice(Math.floor(orders.length * ignored))
    .map(({ id }) => Math.max(0, (received.get(id) ?? NaN) - (committed.get(id) ?? NaN)))
  return { p50: percentile(latencies, 0.5), p99: percentile(latencies, 0.99) }
}

/** Waits until no message is left and handlers have stored this number of orders. @param {import('./contestant.mjs').Session} session @param {number} stored */
async function finished(session, stored) {
  await until(async () => (await session.orders()) >= stored && (await session.state()).waiting === 0)
}

/** @param {() => boolean | Promise<boolean>} condition @param {number} [interval] milliseconds */
async function until(condition, interval = 1) {
  const end = performance.now() + deadline
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`Not finished within ${deadline / 1000} s.`)
    await setTimeout(interval)
  }
}

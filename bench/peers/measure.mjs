// @ts-check
import { setImmediate, setTimeout } from 'node:timers/promises'
import { connections, createOrders } from './contestant.mjs'

/** Milliseconds after which a measurement fails, because a contestant is stuck. */
const deadline = 180_000

/** Handles a backlog. @param {import('./contestant.mjs').Session} session @param {number} count @returns {Promise<number>} messages per second, until all are finished */
export async function drain(session, count) {
  await session.fill(createOrders(count))
  globalThis.gc?.()
  let received = 0
  const start = performance.now()
  await session.start(() => {
    received += 1
  })
  await until(() => received >= count)
  // The state is read only now, so that reading it does not slow the contestant down.
  await finished(session, count)
  const seconds = (performance.now() - start) / 1000
  const { orders, events } = await session.state()
  if (received !== count || orders !== count || events !== count) {
    throw new Error(`Of ${count} orders ${received} were received, ${orders} stored, and ${events} events were created.`)
  }
  return count / seconds
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
 * The time from the commit of a message to the call of its handler, at a steady rate.
 *
 * @param {import('./contestant.mjs').Session} session
 * @param {{ perSecond: number, seconds: number }} load
 * @returns {Promise<{ p50: number, p99: number }>} in milliseconds
 */
export async function latency(session, { perSecond, seconds }) {
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
  const sorted = orders
    .map(({ id }) => Math.max(0, (received.get(id) ?? NaN) - (committed.get(id) ?? NaN)))
    .sort((one, other) => one - other)
  const at = (/** @type {number} */ part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? NaN
  return { p50: at(0.5), p99: at(0.99) }
}

/** Waits until all messages are handled and finished. @param {import('./contestant.mjs').Session} session @param {number} count */
async function finished(session, count) {
  await until(async () => {
    const { orders, waiting } = await session.state()
    return orders >= count && waiting === 0
  })
}

/** @param {() => boolean | Promise<boolean>} condition */
async function until(condition) {
  const end = performance.now() + deadline
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`Not finished within ${deadline / 1000} s.`)
    await setTimeout(1)
  }
}

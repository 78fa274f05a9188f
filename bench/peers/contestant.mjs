// @ts-check
// What all contestants have in common: the shape of each, the orders, and the settings that must be the same for all.

/**
 * @typedef {object} Order
 * @property {string} id
 * @property {number} total
 * @property {string} note
 */

/**
 * @typedef {object} State
 * @property {number} waiting the messages or jobs that are not finished, including those that a worker is handling
 * @property {number} events the follow-up events or jobs
 */

/**
 * One contestant with empty tables or keys of its own.
 *
 * @typedef {object} Session
 * @property {(orders: readonly Order[]) => Promise<void>} fill stores messages, as a backlog
 * @property {(onOrder: (id: string) => void) => Promise<void>} start starts to handle messages. `onOrder` is called when a handler receives an order
 * @property {() => Promise<void>} stop stops to handle messages, when those in flight are finished. May be started again
 * @property {((order: Order) => Promise<void>) | undefined} append stores a row and a message in one transaction; undefined if that is not possible
 * @property {(order: Order) => Promise<void>} send stores a message for the measurement of latencies: `append` where there is one
 * @property {() => Promise<number>} orders the number of orders that were handled and committed
 * @property {() => Promise<State>} state
 * @property {() => Promise<void>} close removes everything from the server. Call `stop` first
 */

/**
 * @typedef {object} Contestant
 * @property {string} name the prefix of its figures
 * @property {'PostgreSQL' | 'Redis'} store
 * @property {string} settings in words, for the page
 * @property {readonly Measure[]} measures
 * @property {Partial<Record<Measure, string>>} [against] the name of the comparable contestant of Ackord, by measure; those of Ackord have none
 * @property {(measure: Measure) => Promise<Session>} open with the best settings for a measure
 */

/**
 * - noop: messages per second from a backlog, with a handler that does nothing
 * - drain: the same with a handler that stores an order and a follow-up event, once
 * - append: transactions per second that store a row and a message
 * - latency: from the commit of a message to its handler, at a steady rate
 * - snapshot: the same while an old snapshot keeps PostgreSQL from removing dead rows
 * - backlog: like drain, from the head of a large backlog
 *
 * @typedef {'noop' | 'drain' | 'append' | 'latency' | 'snapshot' | 'backlog'} Measure
 */

/** The number of connections for handlers, and of connections for writers. A connection that only listens for notifications is extra. */
export const connections = 10

/** On Redis all commands share a connection; this is the number of messages that are handled concurrently. */
export const redisConcurrency = 64

const note = 'x'.repeat(200)
let created = 0

/** @param {number} count @returns {Order[]} */
export function createOrders(count) {
  return Array.from({ length: count }, () => {
    created += 1
    return { id: `order-${created}`, total: 5, note }
  })
}

/** Names the schemas and keys of a session. */
export function sessionName() {
  opened += 1
  return `ackord_peers_${process.pid}_${opened}`
}
let opened = 0

/** @template T @param {readonly T[]} items @param {number} size @returns {T[][]} */
export function chunksOf(items, size) {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, index) => items.slice(index * size, (index + 1) * size))
}

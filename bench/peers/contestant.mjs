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
 * @property {number} orders the orders that were handled and committed
 * @property {number} waiting the messages or jobs that are not finished, including those that a worker is handling
 * @property {number} events the follow-up events or jobs
 */

/**
 * One contestant with empty tables or keys of its own.
 *
 * @typedef {object} Session
 * @property {(orders: readonly Order[]) => Promise<void>} fill stores messages, as a backlog
 * @property {(onOrder: (id: string) => void) => Promise<void>} start starts to handle messages. `onOrder` is called when a handler receives an order
 * @property {((order: Order) => Promise<void>) | undefined} append stores a row and a message in one transaction; undefined if that is not possible
 * @property {(order: Order) => Promise<void>} send stores a message for the measurement of latencies: `append` where there is one
 * @property {() => Promise<State>} state
 * @property {() => Promise<void>} close stops handling and removes everything from the server
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

/** @typedef {'drain' | 'append' | 'latency'} Measure */

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

// @ts-check
// The shop that the pictures of the dashboard show: half an hour of orders, a broker that was down for a while, and what was left of it.
import { Message, silentLogger } from '@ackord/core'
import { allowEverybody, createDashboard, dashboardMetrics } from '@ackord/dashboard'
import { MemoryOutboxStore } from '@ackord/outbox'
import { VirtualRuntime } from '@ackord/testkit'

const second = 1000
const minute = 60 * second
const utf8 = new TextEncoder()

/** Records per minute by destination. */
const traffic = { 'order-events': 180, 'payment-commands': 120, 'shipping-requests': 70, mail: 45 }
const types = {
  'order-events': 'order.placed',
  'payment-commands': 'payment.capture',
  'shipping-requests': 'shipment.request',
  mail: 'mail.send',
}
const refused = { error: 'connect ECONNREFUSED 10.4.0.17:5672', cause: 'connect ECONNREFUSED N.N.N.N:N' }
const declined = { error: 'Payment 4f1d9c was declined: card expired', cause: 'Payment … was declined: card expired' }
const unknownAddress = { error: "No route for address 'Rua Augusta 27'", cause: "No route for address '…'" }

/** A dashboard over a shop that has been running for half an hour. */
export async function openShop() {
  const runtime = new VirtualRuntime({ start: Date.UTC(2026, 10, 18, 9, 0, 40) })
  const store = new MemoryOutboxStore({ runtime, source: '/shop', retain: true, order: 'perKey' })
  const metrics = dashboardMetrics({ runtime })
  const letters = deadLetters(runtime)
  const dashboard = createDashboard({
    stores: { orders: store },
    inboxes: { orders: inboxOf(runtime) },
    deadLetters: { 'orders.dead': lettersPort(letters) },
    metrics,
    doctor: async () => checksOf(await store.stats()),
    traceUrl: 'https://traces.example/{traceId}',
    authorize: () => ({ ...allowed, name: 'ada@example.com' }),
    logger: silentLogger,
    runtime,
  })
  let orders = 0
  /** How many records of each destination a relay has tried. */
  const tried = new Map()

  /** @param {keyof typeof traffic} destination @param {number} count */
  async function place(destination, count) {
    const transaction = store.begin()
    const records = Array.from({ length: count }, () => {
      orders += 1
      const id = `ord-${20_000 + orders}`
      const trace = `00-4bf92f3577b34da6a3ce929d0e0e${String(orders).padStart(4, '0')}-00f067aa0ba902b7-01`
      const data = {
        orderId: id,
        customer: `c-${1000 + (orders % 97)}`,
        total: { amount: 1990 + ((orders * 37) % 9000), currency: 'EUR' },
        items: 1 + (orders % 4),
      }
      const attributes = {
        id: `${id}-${types[destination].split('.')[1]}`,
        type: types[destination],
        partitionkey: data.customer,
        traceparent: trace,
      }
      return {
        destination,
        message: new Message(utf8.encode(JSON.stringify(data)), {
          source: '/shop',
          specversion: '1.0',
          datacontenttype: 'application/json',
          ...attributes,
        }),
      }
    })
    await store.append(transaction, records)
    transaction.commit()
  }

  /** Publishes what is due, except for a destination that is down. @param {string | undefined} down @param {readonly string[]} destinations */
  async function relay(down, destinations = Object.keys(traffic)) {
    const claimed = await store.claim({ limit: 10_000, lease: 30 * second, destinations })
    const counts = new Map()
    const outcomes = claimed.map((record) => {
      const { id, token, destination } = record
      const number = tried.get(destination) ?? 0
      tried.set(destination, number + 1)
      const count = counts.get(destination) ?? { published: 0, failed: 0, parked: 0 }
      counts.set(destination, count)
      const settled = (/** @type {'failed' | 'parked'} */ result, /** @type {typeof refused} */ why) => {
        count[result] += 1
        return result === 'parked'
          ? { id, token, result, ...why }
          : { id, token, result, ...why, retryAfter: (60 + ((number * 7) % 60)) * second }
      }
      if (destination === down) return settled(number % 23 === 0 ? 'parked' : 'failed', refused)
      if (destination === 'payment-commands' && number % 61 === 7) return settled('parked', declined)
      if (destination === 'shipping-requests' && number % 97 === 11) return settled('parked', unknownAddress)
      count.published += 1
      return { id, token, result: /** @type {const} */ ('published') }
    })
    await store.settle(/** @type {any} */ (outcomes))
    return counts
  }

  /** @param {ReadonlyMap<string, object>} counts @param {string} name */
  async function report(counts, name) {
    const rates = [...counts].map(([destination, count]) => ({
      name: `${name} ${destination}`,
      value: JSON.stringify({ duration: minute, destination, ...count }),
    }))
    await store.notes.put('rate', rates, 24 * 60 * minute)
  }

  for (let number = 0; number < 32; number += 1) {
    const isOutage = number >= 12 && number < 16
    const wave = 1 + 0.35 * Math.sin(number / 4)
    const sums = new Map()
    for (let step = 0; step < 6; step += 1) {
      for (const [destination, perMinute] of /** @type {[keyof typeof traffic, number][]} */ (Object.entries(traffic)))
        await place(destination, Math.round((perMinute * wave * (1 + ((number * 7 + step * 3) % 5) / 20)) / 6))
      for (const [destination, count] of await relay(isOutage ? 'order-events' : undefined)) add(sums, destination, count)
      count(metrics, 'billing', Math.round(27 * wave), number === 16 ? 6 : step % 3 === 0 ? 1 : 0)
      count(metrics, 'mail', Math.round(8 * wave), step === 4 ? 1 : 0)
      await runtime.advance(10 * second)
      await look(dashboard)
    }
    await report(sums, String(number))
  }
  await store.pause('mail', { by: 'grace@example.com', reason: 'maintenance of the mail provider', duration: 45 * minute })
  await place('mail', 12)
  await operate(store, runtime)
  await relay(undefined, ['order-events', 'payment-commands', 'shipping-requests'])
  await place('order-events', 9)
  await place('payment-commands', 4)
  await store.notes.put('relay', relays(), 30 * second)
  for (let round = 0; round < 7; round += 1) {
    await runtime.advance(2 * second)
    await look(dashboard)
  }
  const {
    records: [parked],
  } = await store.list({ state: 'parked', cause: declined.cause }, { limit: 1 })
  return {
    dashboard,
    now: runtime.now(),
    parkedId: parked?.id ?? '',
    handledId: 'ord-20017-placed',
    letterId: letters[1]?.message.id ?? '',
  }
}

const allowed = /** @type {import('@ackord/dashboard').Identity} */ (allowEverybody()(new Request('http://localhost/'), undefined))

/** The poller reads only while somebody looks. @param {import('@ackord/dashboard').Dashboard} dashboard */
async function look(dashboard) {
  await dashboard.fetch(new Request('http://localhost/api/overview'))
}

/** @param {Map<string, Record<string, number>>} sums @param {string} destination @param {Record<string, number>} count */
function add(sums, destination, count) {
  const sum = sums.get(destination) ?? { published: 0, failed: 0, parked: 0 }
  for (const [name, value] of Object.entries(count)) sum[name] = (sum[name] ?? 0) + value
  sums.set(destination, sum)
}

/** @param {import('@ackord/dashboard').DashboardMetrics} metrics @param {string} consumer @param {number} handled @param {number} duplicates */
function count(metrics, consumer, handled, duplicates) {
  metrics.count('ackord.inbox.handled', handled, { consumer })
  if (duplicates > 0) metrics.count('ackord.inbox.duplicates', duplicates, { consumer })
  if (duplicates > 5) metrics.count('ackord.settled', 1, { verdict: 'nacked' })
}

/** What operators have done. @param {MemoryOutboxStore} store @param {VirtualRuntime} runtime */
async function operate(store, runtime) {
  const { records } = await store.list({ state: 'parked', cause: refused.cause }, { limit: 40 })
  await store.rearm({ ids: records.slice(0, 18).map(({ id }) => id) }, undefined, { by: 'ada@example.com', reason: 'the broker is back' })
  await runtime.advance(10 * second)
  await store.discard(
    records.slice(18, 20).map(({ id }) => id),
    'test orders',
    { by: 'grace@example.com' },
  )
  await runtime.advance(5 * second)
}

function relays() {
  const common = { destinations: undefined, down: [], partitions: 128, failed: 61, parked: 14 }
  return [
    { ...common, host: 'orders-7c9d', pid: 17, ownedPartitions: '0-127', uptime: 31 * minute, inFlight: 12, published: 6204 },
    { ...common, host: 'orders-b41f', pid: 17, ownedPartitions: '128-255', uptime: 29 * minute, inFlight: 7, published: 5911 },
  ].map((relay, index) => ({ name: `r-${index + 1}`, value: JSON.stringify(relay) }))
}

/** @param {VirtualRuntime} runtime @returns {import('@ackord/outbox').InboxAdmin} */
function inboxOf(runtime) {
  const entry = { source: '/shop', state: /** @type {const} */ ('handled') }
  return {
    find: async (id) => [
      { ...entry, id, consumer: 'billing', handledAt: runtime.now() - 22 * minute, expiresAt: runtime.now() + 7 * 24 * 60 * minute },
      { ...entry, id, consumer: 'mail', handledAt: runtime.now() - 21 * minute, expiresAt: runtime.now() + 7 * 24 * 60 * minute },
    ],
    forget: async () => 0,
  }
}

/** @param {VirtualRuntime} runtime @returns {import('@ackord/dashboard').DeadLetter[]} */
function deadLetters(runtime) {
  return ['no customer with the id c-4711', 'total must be positive', 'no customer with the id c-4718'].map((reason, index) => {
    const id = `ord-2004${index}-placed`
    const data = { orderId: id.slice(0, 9), customer: `c-47${11 + index}`, total: { amount: index === 1 ? -500 : 4990, currency: 'EUR' } }
    const attributes = {
      id,
      type: 'order.placed',
      source: '/shop',
      specversion: '1.0',
      datacontenttype: 'application/json',
      partitionkey: data.customer,
    }
    const message = new Message(utf8.encode(JSON.stringify(data)), attributes)
    return {
      position: `#${index + 1}`,
      message,
      origin: 'orders',
      reason,
      failedAt: runtime.now() + (9 + index * 6) * minute,
      problem: undefined,
    }
  })
}

/** @param {readonly import('@ackord/dashboard').DeadLetter[]} letters @returns {import('@ackord/dashboard').DeadLetterPort} */
function lettersPort(letters) {
  return {
    list: async () => ({ letters, count: letters.length }),
    find: async (id) => letters.filter(({ message }) => message.id === id),
    preview: async () => ({ count: letters.length, skipped: 0, destinations: ['orders'], capped: false }),
    replay: async () => 0,
  }
}

/** As `ackord dashboard` finds them. @param {import('@ackord/outbox').OutboxStats} stats @returns {readonly import('@ackord/dashboard').DoctorCheck[]} */
function checksOf({ destinations }) {
  const parked = destinations.reduce((sum, counts) => sum + counts.parked, 0)
  const store = /** @type {const} */ ({ of: 'store', store: 'orders', result: 'ok' })
  const broker = /** @type {const} */ ({ of: 'broker', store: 'rabbit', result: 'ok' })
  return [
    { ...store, title: 'connection', text: 'postgres://orders@db.example:5432/shop answers.' },
    { ...store, title: 'schema', text: 'The tables exist, in a version that this command supports.' },
    { ...store, title: 'privileges', text: 'The user has all privileges that a service and a relay need.' },
    { ...store, title: 'backlog', result: 'warning', text: `${parked} records are parked: \`ackord list --state parked\`.` },
    { ...broker, title: 'connection', text: 'amqp://orders@rabbit.example:5672 answers.' },
  ]
}

import { randomUUID } from 'node:crypto'
import {
  compose,
  deterministicIds,
  enter,
  jsonMarshaler,
  type Message,
  type Middleware,
  marshal,
  type Process,
  type Publisher,
  publishAll,
  type RawMessage,
  rootContext,
  type Source,
} from '@ackord/core'
import { outputIdsKey, probe } from '@ackord/core/internal'
import { type ClaimedRecord, MemoryOutboxStore, type OutboxStore } from '@ackord/outbox'
import type { RabbitmqConnection } from '@ackord/rabbitmq'
import { type Database, inboxMiddleware, outboxMiddleware, transactionMiddleware } from '../../../src/index.ts'
import type { TestHandle } from '../../support/world.ts'
import { type CrashRules, consumer, crashRules } from './crash-rules.ts'

/** A service with one broken rule, the scenario that must detect it, and the expected message. */
export interface CrashMutant {
  readonly name: string
  readonly caughtBy: string
  readonly says: RegExp
  readonly rules: Partial<CrashRules>
}

const memory = new MemoryOutboxStore()
const { relay, router } = crashRules
const lost = /commands lost/
const eventsLost = /events lost/
const twice = /commands applied more than once/
/** Records that waited in the hot path, if any, are lost as well. */
const lostOrNoDuplicate = /duplicates at the broker: 0, and a kill between publish and settle leaves at least 1|events lost/

export const crashMutants: readonly CrashMutant[] = [
  ...broken('a service that is not killed applies every command once, publishes every event once, and stops', {
    'a message is never acked': [{ router: { ...router, ackStrategy: 'manual' } }, /commands left at the broker/],
    'event ids are random': [{ eventAttributes: () => ({ id: randomUUID() }) }, /events that no command has/],
    'every event is sent twice': [{ publisher: sendTwice }, /duplicates at the broker: \d+, and at most 0 are allowed/],
  }),
  ...broken('killed at message.received', { 'a message is acked when it is sent': [{ source: autoAck }, lost] }),
  ...broken('killed at transaction.begun', { 'a message is acked when it is sent': [{ source: autoAck }, lost] }),
  ...broken('killed at inbox.recorded', { 'the inbox is written outside of the transaction': [{ middleware: recordOutside }, lost] }),
  ...broken('killed at message.handled', { 'the business write is outside of the transaction': [{ save: saveOutside }, twice] }),
  ...broken('killed at outbox.appended', { 'the business write is outside of the transaction': [{ save: saveOutside }, twice] }),
  ...broken('killed at transaction.beforeCommit', { 'a message is acked when it is sent': [{ source: autoAck }, lost] }),
  ...broken('killed at transaction.afterCommit', {
    'events are published after the commit, without an outbox': [{ middleware: publishAfterCommit }, eventsLost],
  }),
  ...broken('killed at message.beforeAck', { 'there is no inbox': [{ middleware: withoutInbox }, twice] }),
  ...broken('killed at message.afterAck', {
    'the outbox is in memory': [
      { middleware: appendToMemory, store: memoryStore, relay: { ...relay, pollInterval: 1000, maxPollInterval: 1000 } },
      eventsLost,
    ],
  }),
  ...broken('killed at relay.claimed', {
    'records are settled before they are published': [{ store: settleFirst }, eventsLost],
    'a lease is never taken over': [{ relay: { ...relay, lease: 3_600_000 } }, /left in the outbox: \d+ leased/],
    'a record that was claimed once is parked': [{ relay: { ...relay, maxAttempts: 1 } }, /left in the outbox: \d+ parked/],
  }),
  ...broken('killed at relay.published', { 'records are settled before they are published': [{ store: settleFirst }, lostOrNoDuplicate] }),
  ...broken('killed at relay.beforeSettle', {
    'records are settled before they are published': [{ store: settleFirst }, lostOrNoDuplicate],
  }),
  ...broken('killed at relay.afterSettle', {
    'published records are not settled': [{ store: neverSettle }, /duplicates at the broker: \d+, and at most 0 are allowed/],
  }),
  ...broken('killed at message.beforeAck, three times', { 'there is no inbox': [{ middleware: withoutInbox }, twice] }),
  ...broken('killed at relay.published, three times', {
    'a record that was claimed once is parked': [{ relay: { ...relay, maxAttempts: 1 } }, /left in the outbox: \d+ parked/],
  }),
  ...broken('killed at every point in turn', { 'the business write is outside of the transaction': [{ save: saveOutside }, twice] }),
  ...broken('killed repeatedly while another service continues', {
    'a lease is never taken over': [{ relay: { ...relay, lease: 3_600_000 } }, /left in the outbox: \d+ leased/],
  }),
]

function broken(caughtBy: string, mutants: Readonly<Record<string, readonly [Partial<CrashRules>, RegExp]>>): CrashMutant[] {
  return Object.entries(mutants).map(([name, [rules, says]]) => ({ name, caughtBy, rules, says }))
}

/** RabbitMQ treats every message as acked when it has sent it. */
function autoAck(connection: RabbitmqConnection, queue: string): Source {
  const createChannel = connection.createChannel.bind(connection)
  const careless = Object.assign(connection, {
    async createChannel() {
      const channel = await createChannel()
      const consume = channel.consume.bind(channel)
      return Object.assign(channel, {
        consume(...[name, onMessage, options]: Parameters<typeof consume>) {
          // An option of amqplib that Ackord does not use.
          const more = { ...options, noAck: true }
          return consume(name, onMessage, more)
        },
        ack() {},
        nack() {},
      })
    },
  })
  return crashRules.source(careless, queue)
}

function recordOutside(database: Database<TestHandle>, destination: string): Middleware {
  const record = giveIds(async ({ source, id }) => {
    const statement = 'INSERT INTO ackord_inbox (consumer, source, id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING id'
    const { rows } = await database.executor(rootContext()).query(statement, [consumer, source, id])
    if (rows.length > 0) await probe('inbox.recorded')
    return rows.length > 0
  })
  return compose(transactionMiddleware(database), record, outboxMiddleware(database, { destination }))
}

function withoutInbox(database: Database<TestHandle>, destination: string): Middleware {
  return compose(
    transactionMiddleware(database),
    giveIds(async () => true),
    outboxMiddleware(database, { destination }),
  )
}

/** Replaces the inbox. */
function giveIds(isNew: (message: Message) => Promise<boolean>): Middleware {
  return (next) =>
    async function giving(message, context) {
      if (!(await isNew(message))) return []
      const inside = context.with(outputIdsKey, deterministicIds(consumer, message.source ?? '', message.id ?? ''))
      return await enter(inside, () => next(message, inside))
    }
}

function publishAfterCommit(database: Database<TestHandle>, destination: string, publisher: Publisher): Middleware {
  const kept = new Map<Message['id'], readonly RawMessage[]>()
  const publish = (next: Process): Process =>
    async function publishing(message, context) {
      const outputs = await next(message, context)
      const events = kept.get(message.id)
      kept.delete(message.id)
      if (events !== undefined) await publishAll(publisher, destination, events)
      return outputs
    }
  const keep = takeOutputs(async (events, message) => void kept.set(message.id, events))
  return compose(publish, transactionMiddleware(database), inboxMiddleware(database, { consumer }), keep)
}

function appendToMemory(database: Database<TestHandle>, destination: string): Middleware {
  const append = takeOutputs(async (events) => {
    const transaction = memory.begin()
    await memory.append(
      transaction,
      events.map((message) => ({ destination, message })),
    )
    transaction.commit()
  })
  return compose(transactionMiddleware(database), inboxMiddleware(database, { consumer }), append)
}

/** Without wake-ups, so that the relay polls only after its service was killed. */
function memoryStore(): OutboxStore {
  return {
    capabilities: memory.capabilities,
    claim: (options) => memory.claim(options),
    renew: (claims, lease) => memory.renew(claims, lease),
    release: (claims) => memory.release(claims),
    settle: (outcomes) => memory.settle(outcomes),
  }
}

/** Replaces the outbox. */
function takeOutputs(take: (events: readonly RawMessage[], message: Message) => Promise<void>): Middleware {
  return (next) =>
    async function taking(message, context) {
      const outputs = await next(message, context)
      await take(
        outputs.map((output) => marshal(output, jsonMarshaler)),
        message,
      )
      return []
    }
}

async function saveOutside(database: Database<TestHandle>, order: string): Promise<void> {
  await database.executor(rootContext()).query('INSERT INTO orders (id) VALUES ($1)', [order])
}

function sendTwice(publisher: Publisher): Publisher {
  return {
    async publish(destination, messages, options) {
      await publisher.publish(destination, messages, options)
      return await publisher.publish(destination, messages, options)
    },
  }
}

function settleFirst(store: OutboxStore): OutboxStore {
  const settle = async (records: readonly ClaimedRecord[]) => {
    await store.settle(records.map(({ id, token }) => ({ id, token, result: 'published' })))
    return records
  }
  return {
    ...neverSettle(store),
    claim: async (options) => await settle(await store.claim(options)),
    attach: (taker) =>
      store.attach?.({
        lease: (destinations) => taker.lease(destinations),
        take: (records, age) => void settle(records).then(() => taker.take(records, age)),
      }) ?? (() => {}),
    renew: async (claims) => claims.map(() => true),
  }
}

function neverSettle(store: OutboxStore): OutboxStore {
  return { ...store, settle: async (outcomes) => outcomes.map(() => 'applied') }
}

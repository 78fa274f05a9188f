import assert from 'node:assert/strict'
import type { InboxAdmin, InboxEntry } from '@ackord/outbox'
import { trackedMessage } from '../../helpers/tracked-message.ts'
import { counting, deliver, type TransactionScenario, type TransactionWorld } from './transaction-world.ts'

const source = '/shop'

function inboxOf({ inbox }: TransactionWorld): InboxAdmin {
  assert.ok(inbox !== undefined, 'the world must have the inbox for operators')
  return inbox
}

/** Delivers a message once, and resolves to the number of calls of its handler. */
async function handle(world: TransactionWorld, consumer: string, id: string, from = source): Promise<number> {
  const handler = counting(world, `${consumer} ${from} ${id}`)
  const order = trackedMessage(id, { attributes: { source: from } })
  await deliver({ use: [world.transactional(consumer)], handle: handler.handle }, order)
  assert.deepEqual(order.verdicts, ['ack'])
  return handler.calls()
}

function keysOf(entries: readonly InboxEntry[]): readonly (readonly [consumer: string, source: string, id: string])[] {
  return entries.map(({ consumer, source: from, id }) => [consumer, from, id])
}

const scenarios: readonly TransactionScenario[] = [
  {
    name: 'finds a message that was handled, and says when, or until when it is remembered',
    async run(open) {
      await using world = await open()
      const inbox = inboxOf(world)
      await handle(world, 'orders', 'm1')
      const [entry, ...more] = await inbox.find('m1', { consumer: 'orders', source })
      assert.deepEqual(more, [])
      assert.deepEqual(
        { consumer: entry?.consumer, source: entry?.source, id: entry?.id, state: entry?.state },
        { consumer: 'orders', source, id: 'm1', state: 'handled' },
      )
      const instant = entry?.handledAt ?? entry?.expiresAt
      assert.ok(instant !== undefined && instant > Date.UTC(2020), 'the entry has no instant in milliseconds since the epoch')
    },
  },
  {
    name: 'finds nothing of a message that failed, or that another consumer, source or id handled',
    async run(open) {
      await using world = await open()
      const inbox = inboxOf(world)
      const failing = trackedMessage('failed', { attributes: { source } })
      await deliver({ use: [world.transactional('orders')], handle: () => Promise.reject(new Error('fails')) }, failing)
      await handle(world, 'orders', 'm1')
      assert.deepEqual(await inbox.find('failed', { consumer: 'orders', source }), [])
      assert.deepEqual(await inbox.find('m1', { consumer: 'billing', source }), [])
      assert.deepEqual(await inbox.find('m1', { consumer: 'orders', source: '/branch' }), [])
      assert.deepEqual(await inbox.find('M1', { consumer: 'orders', source }), [])
    },
  },
  {
    name: 'a forgotten message is handled again, and remembered again',
    async run(open) {
      await using world = await open()
      const inbox = inboxOf(world)
      assert.equal(await handle(world, 'orders', 'm1'), 1)
      assert.equal(await handle(world, 'orders', 'm1'), 0)
      assert.equal(await inbox.forget('m1', { consumer: 'orders', source }), 1)
      assert.deepEqual(await inbox.find('m1', { consumer: 'orders', source }), [])
      assert.equal(await handle(world, 'orders', 'm1'), 1, 'the forgotten message was not handled again')
      assert.equal(await handle(world, 'orders', 'm1'), 0, 'the message is handled more than once after it was forgotten')
    },
  },
  {
    name: 'forgets neither another consumer, source nor id, and counts what it has forgotten',
    async run(open) {
      await using world = await open()
      const inbox = inboxOf(world)
      await handle(world, 'orders', 'm1')
      await handle(world, 'billing', 'm1')
      await handle(world, 'orders', 'm1', '/branch')
      await handle(world, 'orders', 'M1')
      assert.equal(await inbox.forget('m2', { consumer: 'orders', source }), 0)
      assert.equal(await inbox.forget('m1', { consumer: 'shipping', source }), 0)
      assert.equal(await inbox.forget('m1', { consumer: 'orders', source }), 1)
      assert.equal(await inbox.forget('m1', { consumer: 'orders', source }), 0)
      assert.equal((await inbox.find('m1', { consumer: 'billing', source })).length, 1, 'another consumer was forgotten')
      assert.equal((await inbox.find('m1', { consumer: 'orders', source: '/branch' })).length, 1, 'another source was forgotten')
      assert.equal((await inbox.find('M1', { consumer: 'orders', source })).length, 1, 'another id was forgotten')
    },
  },
]

const searchScenarios: readonly TransactionScenario[] = [
  {
    name: 'finds every consumer and source of an id, in this order',
    async run(open) {
      await using world = await open()
      const inbox = inboxOf(world)
      for (const [consumer, from] of [
        ['shipping', source],
        ['billing', source],
        ['billing', '/branch'],
      ] as const) {
        await handle(world, consumer, 'm1', from)
        await handle(world, consumer, 'm2', from)
      }
      assert.deepEqual(keysOf(await inbox.find('m1')), [
        ['billing', '/branch', 'm1'],
        ['billing', source, 'm1'],
        ['shipping', source, 'm1'],
      ])
      assert.deepEqual(keysOf(await inbox.find('m1', { consumer: 'billing' })), [
        ['billing', '/branch', 'm1'],
        ['billing', source, 'm1'],
      ])
      assert.deepEqual(keysOf(await inbox.find('m1', { source })), [
        ['billing', source, 'm1'],
        ['shipping', source, 'm1'],
      ])
      assert.deepEqual(await inbox.find('m3'), [])
    },
  },
  {
    name: 'forgets every source of an id if none is named, for one consumer',
    async run(open) {
      await using world = await open()
      const inbox = inboxOf(world)
      await handle(world, 'orders', 'm1')
      await handle(world, 'orders', 'm1', '/branch')
      await handle(world, 'billing', 'm1')
      assert.equal(await inbox.forget('m1', { consumer: 'orders' }), 2)
      assert.deepEqual(keysOf(await inbox.find('m1')), [['billing', source, 'm1']])
    },
  },
]

/** The promises of an inbox to operators. `searches`: it finds a message without its consumer and source. */
export function inboxAdminScenarios({ searches }: { readonly searches: boolean }): readonly TransactionScenario[] {
  return searches ? [...scenarios, ...searchScenarios] : scenarios
}

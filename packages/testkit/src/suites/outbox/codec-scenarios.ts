import assert from 'node:assert/strict'
import { type RawMessage, sleep, systemRuntime } from '@ackord/core'
import type { PayloadCodec } from '@ackord/core/payload'
import type { NewOutboxRecord } from '@ackord/outbox'
import { deferred } from '../../helpers/tracked-message.ts'
import { claim, claimOne, commit, hour, idsOf, type OutboxScenario, type OutboxTransaction, record, records } from './outbox-world.ts'

/** The codecs of an outbox, applied to the events that are appended to it. */
export const codecScenarios: readonly OutboxScenario[] = [
  {
    name: 'append stores what the codecs make of an event, and applies them once',
    async run(open) {
      const outer = marking('outer')
      const inner = marking('inner', { before: async () => {} })
      await using world = await open({ retain: false, codecs: [outer, inner] })
      await commit(world, record('e1', { destination: 'invoices' }))
      const { destination, message } = await claimOne(world.store)
      assert.equal(textOf(message), 'inner(outer("e1"))')
      assert.deepEqual([destination, message.id, message.type, message.attributes['marked']], ['invoices', 'e1', 'order.placed', 'inner'])
      assert.deepEqual([outer.encoded, inner.encoded], [['e1'], ['e1']])
    },
  },
  {
    name: 'a delayed record with codecs waits until it is due',
    async run(open) {
      await using world = await open({ retain: false, codecs: [marking('codec', { before: async () => {} })] })
      await commit(world, record('later', { delay: hour }))
      assert.deepEqual(idsOf(await claim(world.store)), [])
      await world.advance(hour + 1000)
      assert.equal(textOf((await claimOne(world.store)).message), 'codec("later")')
    },
  },
  {
    name: 'records of a transaction keep their order if a codec takes longer for the first',
    async run(open) {
      const lastEncoded = deferred()
      const slow = marking('slow', {
        before: async ({ id }) => {
          if (id !== 'e1') return
          await lastEncoded.promise
          // In a later turn of the event loop: a store that does not wait has queued the second append by then.
          await sleep(systemRuntime, 0)
        },
        after: ({ id }) => {
          if (id === 'e4') lastEncoded.resolve()
        },
      })
      await using world = await open({ retain: false, codecs: [slow] })
      await world.transaction(async (transaction) => {
        // Both are begun before the first is encoded, and the second ends earlier.
        await Promise.all([transaction.append([record('e1'), record('e2')]), transaction.append([record('e3'), record('e4')])])
        await transaction.append([record('e5')])
      })
      assert.deepEqual(slow.encoded.toSorted(), ['e1', 'e2', 'e3', 'e4', 'e5'])
      assert.ok(slow.encoded.indexOf('e1') > slow.encoded.indexOf('e4'), 'the codec must encode the first record late')
      assert.deepEqual(idsOf(await claim(world.store)), ['e1', 'e2', 'e3', 'e4', 'e5'])
    },
  },
  {
    name: 'an append with codecs that is not awaited is part of the commit',
    async run(open) {
      const begun = deferred()
      const blocked = deferred()
      const slow = marking('slow', {
        before: async () => {
          begun.resolve()
          await blocked.promise
        },
      })
      await using world = await open({ retain: false, codecs: [slow] })
      const appended = deferred()
      const ended = world.transaction(async (transaction) => {
        transaction.append([record('e1')]).then(appended.resolve, appended.reject)
        await begun.promise
      })
      await begun.promise
      blocked.resolve()
      await Promise.all([ended, appended.promise])
      assert.deepEqual(idsOf(await claim(world.store)), ['e1'])
    },
  },
  {
    name: 'nothing of an append is stored if a codec fails for one of its events',
    async run(open) {
      const refusal = new Error('the object store is not reachable')
      const failing = marking('codec', {
        before: async ({ id }) => {
          if (id === 'e2') throw refusal
        },
      })
      await using world = await open({ retain: false, codecs: [failing] })
      const append = (transaction: OutboxTransaction) => transaction.append(records(3))
      await assert.rejects(world.transaction(append), (error: unknown) => {
        assert.ok(error instanceof Error && error.cause === refusal, 'the error must have that of the codec as its cause')
        return true
      })
      assert.deepEqual(idsOf(await claim(world.store)), [])

      // A store may or may not commit the rest if the error was caught.
      const other: NewOutboxRecord = record('other')
      let committed = true
      await world
        .transaction(async (transaction) => {
          await append(transaction).catch(() => {})
          await transaction.append([other])
        })
        .catch(() => {
          committed = false
        })
      assert.deepEqual(idsOf(await claim(world.store)), committed ? ['other'] : [])
    },
  },
]

interface MarkingCodec extends PayloadCodec {
  /** The ids of the messages that it has encoded, in the order in which it was done with them. */
  readonly encoded: (string | undefined)[]
}

/** Wraps the data in its name, and sets an attribute. With `before` it is asynchronous. */
function marking(
  name: string,
  hooks: {
    readonly before?: (message: RawMessage) => Promise<void>
    readonly after?: (message: RawMessage) => void
  } = {},
): MarkingCodec {
  const { before, after } = hooks
  const encoded: (string | undefined)[] = []
  function encode(message: RawMessage): RawMessage {
    encoded.push(message.id)
    after?.(message)
    return message.copy(new TextEncoder().encode(`${name}(${textOf(message)})`)).withAttributes({ marked: name })
  }
  return {
    encoded,
    encode: (message) => (before === undefined ? encode(message) : before(message).then(() => encode(message))),
    decode: (message) => message,
  }
}

function textOf({ data }: RawMessage): string {
  return new TextDecoder().decode(data)
}

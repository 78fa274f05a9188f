import { jsonMarshaler, marshal, rootContext, silentLogger } from '@ackord/core'
import { describe, expect, it, vi } from 'vitest'
import { sqlOutbox, transactional } from '../../src/index.ts'
import { type ClientWorld, onEachClient } from '../support/client-worlds.ts'
import { command, event, failureOf, openPg } from '../support/world.ts'

const delayed = (id: string, delay: number) => ({ destination: 'events', message: marshal(event(id), jsonMarshaler), delay })
const source = String(event('e1').attributes.source)
const reference = (id: string) => ({ destination: 'events', source, id })
const hour = 3_600_000

function testCancel<Handle>(name: string, open: () => Promise<ClientWorld<Handle>>): void {
  describe(`cancel() on ${name}`, () => {
    const outboxOf = ({ database }: ClientWorld<Handle>) => sqlOutbox(database, { logger: silentLogger })
    const stored = (world: ClientWorld<Handle>) => world.column('SELECT id FROM ackord_outbox ORDER BY seq')

    it('removes a delayed record with the writes of the same transaction', async () => {
      await using world = await open()
      const outbox = outboxOf(world)
      await world.database.write((transaction) => outbox.append(transaction, [delayed('e1', hour), delayed('e2', hour)]))
      await world.database.write(async (transaction) => {
        await world.insert(transaction, '1')
        expect(await outbox.cancel(transaction, [reference('e1'), reference('nobody')])).toBe(1)
      })
      expect([await stored(world), await world.orders()]).toEqual([['e2'], 1])
    })

    it('removes a record whatever characters its attributes contain', async () => {
      await using world = await open()
      const outbox = outboxOf(world)
      // Truncating a string inside an emoji leaves half of a surrogate pair.
      const texts = ['\ud83d', '\0', 'a"b\\c', '\\u0041', 'é\u2028😀']
      const messages = texts.flatMap((text, index) => [
        marshal(event(`subject-${index}`, { subject: text }), jsonMarshaler),
        marshal(event(`source-${index}`, { source: text }), jsonMarshaler),
      ])
      const references = messages.map(({ attributes }) => ({
        destination: 'events',
        source: `${attributes.source}`,
        id: `${attributes.id}`,
      }))
      const { database } = world
      await database.write((tx) =>
        outbox.append(
          tx,
          messages.map((message) => ({ destination: 'events', message, delay: hour })),
        ),
      )
      const others = references.map((one) => ({ ...one, source: `${one.source}?` }))
      expect(await database.write((tx) => outbox.cancel(tx, others))).toBe(0)
      expect(await database.write((tx) => outbox.cancel(tx, references.slice(0, 1)))).toBe(1)
      expect(await database.write((tx) => outbox.cancel(tx, references))).toBe(messages.length - 1)
    })

    it('works in a transaction of the user', async () => {
      await using world = await open()
      const outbox = outboxOf(world)
      await world.begin(async (transaction) => {
        await outbox.append(transaction, [delayed('e1', hour)])
        expect(await outbox.cancel(transaction, [reference('e1')])).toBe(1)
      })
      expect(await stored(world)).toEqual([])
    })

    it('rejects the pool, and invalid references', async () => {
      await using world = await open()
      const outbox = outboxOf(world)
      expect(await failureOf(outbox.cancel(world.database.executor(), [reference('e1')]))).toMatchObject({
        code: 'ACKORD_TRANSACTION_REQUIRED',
      })
      for (const wrong of [['e1'], [{ destination: 'events', source, id: '' }], 'e1']) {
        const cancelling = world.database.write(async (transaction) => outbox.cancel(transaction, wrong as never))
        expect(await failureOf(cancelling)).toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
      }
    })

    it('finds records appended by other members of a group and by the message itself', async () => {
      await using world = await open()
      const { database } = world
      const outbox = outboxOf(world)
      const run = transactional(database, {
        inbox: { consumer: 'orders' },
        outbox: { destination: 'events' },
        transaction: { logger: silentLogger },
        groupCommit: { size: 50, groups: 1 },
      })(async (message) => {
        const transaction = database.executor()
        await outbox.append(transaction, [delayed(`${message.id}-later`, hour), delayed(`${message.id}-kept`, hour)])
        expect(await outbox.cancel(transaction, [reference(`${message.id}-later`)])).toBe(1)
        return [event(`${message.id}-now`)]
      })
      await Promise.all(['1', '2'].map((id) => command(id).message).map((message) => run(message, message.context(rootContext()))))
      expect([...(await stored(world))].sort()).toEqual(['1-kept', '1-now', '2-kept', '2-now'])
    })

    // On SQLite, which has one writer, a claim waits for the transaction anyway.
    if (/sqlite/i.test(name)) return
    it('hides a record from relays while its transaction is open, even if it becomes due meanwhile', async () => {
      await using world = await open()
      const outbox = outboxOf(world)
      await world.database.write((transaction) => outbox.append(transaction, [delayed('e1', 1000)]))
      await world.database.write(async (transaction) => {
        expect(await outbox.cancel(transaction, [reference('e1')])).toBe(1)
        // Other transactions still see the record, and that it is due.
        await vi.waitUntil(async () => (await outbox.list({ state: 'ready' }, { limit: 1 })).records.length === 1, { timeout: 30_000 })
        expect(await outbox.claim({ limit: 10, lease: 30_000 })).toEqual([])
      })
      expect(await outbox.claim({ limit: 10, lease: 30_000 })).toEqual([])
      expect(await stored(world)).toEqual([])
    })
  })
}

onEachClient(testCancel)

it('cancel() removes records that ackord_append() has stored', async () => {
  await using world = await openPg()
  const outbox = sqlOutbox(world.database, { logger: silentLogger })
  const append = "SELECT ackord_append('events', 'order.placed', $1, 'x', id => 'e1', delay => interval '1 hour')"
  for (const written of [source, 'urn:"é']) {
    await world.query(append, [written])
    const cancel = (asked: string) => world.database.write((tx) => outbox.cancel(tx, [{ destination: 'events', source: asked, id: 'e1' }]))
    expect([await cancel(`${written}?`), await cancel(written)]).toEqual([0, 1])
  }
})

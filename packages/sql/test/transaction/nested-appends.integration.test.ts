import { jsonMarshaler, marshal, type Process, rootContext, silentLogger } from '@ackord/core'
import type { ClaimedRecord } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { sqlOutbox, transactional, transactionMiddleware } from '../../src/index.ts'
import { type ClientWorld, onEachClient } from '../support/client-worlds.ts'
import { command, event, handle, openPg } from '../support/world.ts'

const record = (id: string, delay = 0) => ({ destination: 'events', message: marshal(event(id), jsonMarshaler), delay })

function testNestedAppends<Handle>(name: string, open: () => Promise<ClientWorld<Handle>>): void {
  describe.each([
    ['alone', undefined],
    ['in a group', { size: 50, groups: 1 }],
  ] as const)(`events and a nested database.write() that fails on ${name}, %s`, (_, groupCommit) => {
    async function handleTwo({ database }: ClientWorld<Handle>, process: Process): Promise<void> {
      const run = transactional(database, {
        inbox: { consumer: 'orders' },
        outbox: { destination: 'events' },
        transaction: { logger: silentLogger },
        groupCommit,
      })(process)
      const messages = ['1', '2'].map((id) => command(id).message)
      await Promise.all(messages.map((message) => run(message, message.context(rootContext()))))
    }
    const stored = async (world: ClientWorld<Handle>) => [...(await world.column('SELECT id FROM ackord_outbox'))].sort()

    /** Runs `inside` in a nested transaction that fails after a few more statements. */
    function failNested(world: ClientWorld<Handle>, inside: (transaction: Handle) => Promise<unknown> = async () => {}): Promise<unknown> {
      const writing = world.database.write(async (transaction) => {
        await inside(transaction)
        for (let count = 0; count < 5; count += 1) await world.run(transaction, 'SELECT 1')
        throw new Error('failed')
      })
      return writing.catch(() => {})
    }

    it('are stored when the handler returns them while it is still running', async () => {
      await using world = await open()
      await handleTwo(world, async ({ id }) => {
        void failNested(world, (transaction) => world.insert(transaction, `${id}`))
        await world.run(world.database.executor(), 'SELECT 1')
        return [event(`${id}-returned`)]
      })
      expect([await stored(world), await world.orders()]).toEqual([['1-returned', '2-returned'], 0])
    })

    it('are stored when they are appended beside it', async () => {
      await using world = await open()
      const outbox = sqlOutbox(world.database, { logger: silentLogger })
      await handleTwo(world, async ({ id }) => {
        const transaction = world.database.executor()
        await outbox.append(transaction, [record(`${id}-cancelled`, 3_600_000)])
        const failing = failNested(world, (nested) => outbox.append(nested, [record(`${id}-nested`)]))
        const { source } = event('any').attributes
        const cancelling = outbox.cancel(transaction, [{ destination: 'events', source: `${source}`, id: `${id}-cancelled` }])
        await Promise.all([failing, outbox.append(transaction, [record(`${id}-beside`)]), cancelling])
        return []
      })
      expect(await stored(world)).toEqual(['1-beside', '2-beside'])
    })

    it('are undone with it when they are appended in it, through any handle', async () => {
      await using world = await open()
      const { database } = world
      const outbox = sqlOutbox(database, { logger: silentLogger })
      await handleTwo(world, async ({ id }) => {
        const outer = database.executor()
        await failNested(world, async () => {
          await world.insert(outer, `${id}`)
          await outbox.append(outer, [record(`${id}-undone`)])
        })
        await outbox.append(outer, [record(`${id}-after`)])
        return []
      })
      expect([await stored(world), await world.orders()]).toEqual([['1-after', '2-after'], 0])
    })
  })
}

onEachClient(testNestedAppends)

describe('the hot path', () => {
  it('does not publish records rolled back with a nested transaction, although they were appended to the outer one', async () => {
    await using world = await openPg()
    const { database } = world
    const outbox = sqlOutbox(database, { logger: silentLogger })
    const taken: string[] = []
    outbox.attach?.({
      lease: () => 30_000,
      take: (records: readonly ClaimedRecord[]) => void taken.push(...records.map(({ message }) => `${message.id}`)),
    })
    await handle(transactionMiddleware(database), async () => {
      const outer = database.executor()
      const nested = database.write(async () => {
        await outbox.append(outer, [record('undone')])
        throw new Error('failed')
      })
      await nested.catch(() => {})
      await outbox.append(outer, [record('kept')])
      return []
    })
    expect(taken).toEqual(['kept'])
    expect(await world.query('SELECT id FROM ackord_outbox')).toEqual([{ id: 'kept' }])
  })
})

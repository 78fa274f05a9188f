import { Message, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { unhandledDuring } from '../../../core/test/support/process-events.ts'
import { sqlOutbox, transactional } from '../../src/index.ts'
import { type ClientWorld, onEachClient } from '../support/client-worlds.ts'
import { command, event, failureOf, handle } from '../support/world.ts'

const tooLarge = { code: 'ACKORD_INVALID_OUTPUT' }
const settings = { logger: silentLogger, retries: 0 }

function testUnawaitedAppend<Handle>(name: string, open: () => Promise<ClientWorld<Handle>>): void {
  describe(`an un-awaited append() on ${name}`, () => {
    const appendTo = ({ database }: ClientWorld<Handle>, transaction: Handle, size = 2000) =>
      sqlOutbox(database, { maxSize: 1000, logger: silentLogger }).append(transaction, [
        { destination: 'events', message: new Message(new Uint8Array(size), event('e1').attributes) },
      ])

    it('fails the transaction and not the process when a record is rejected', async () => {
      await using world = await open()
      const unhandled = await unhandledDuring(async () => {
        const writing = world.database.write(async (transaction) => {
          await world.insert(transaction, '1')
          void appendTo(world, transaction)
        }, settings)
        expect(await failureOf(writing)).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED', cause: tooLarge })
      })
      expect([unhandled, await world.orders()]).toEqual([[], 0])
    })

    it('fails the transaction and not the process when the database rejects it', async () => {
      await using world = await open()
      await world.query('ALTER TABLE ackord_outbox RENAME TO gone')
      const unhandled = await unhandledDuring(async () => {
        const writing = world.database.write(async (transaction) => {
          await world.insert(transaction, '1')
          void appendTo(world, transaction, 1)
          void appendTo(world, transaction, 1)
        }, settings)
        const error = await failureOf(writing)
        expect([error, error.cause]).toContainEqual(expect.objectContaining({ name: 'SchemaError' }))
      })
      expect([unhandled, await world.orders()]).toEqual([[], 0])
    })

    it('fails only a nested transaction', async () => {
      await using world = await open()
      const { database } = world
      const unhandled = await unhandledDuring(async () => {
        await database.write(async (outer, context) => {
          await world.insert(outer, 'outer')
          const nested = database.write(
            async (inner) => {
              await world.insert(inner, 'inner')
              void appendTo(world, inner)
            },
            { context },
          )
          expect(await failureOf(nested)).toMatchObject({ cause: tooLarge })
        }, settings)
      })
      expect([unhandled, await world.orders()]).toEqual([[], 1])
    })

    it.each(['alone', 'in a group'])('fails its own message, which is handled %s', async (how) => {
      await using world = await open()
      const process = transactional(world.database, {
        inbox: { consumer: 'orders' },
        outbox: { destination: 'events' },
        transaction: settings,
        groupCommit: how === 'alone' ? undefined : { size: 10, groups: 1 },
      })(async ({ id }, context) => {
        const transaction = world.database.executor(context)
        await world.insert(transaction, `${id}`)
        void appendTo(world, transaction, id === '2' ? 2000 : 1)
        return []
      })
      let settled: readonly PromiseSettledResult<unknown>[] = []
      const unhandled = await unhandledDuring(async () => {
        settled = await Promise.allSettled(
          ['1', '2', '3'].map((id) =>
            handle(
              () => process,
              async () => [],
              command(id).message,
            ),
          ),
        )
      })
      expect(settled).toMatchObject([{ status: 'fulfilled' }, { reason: { cause: tooLarge } }, { status: 'fulfilled' }])
      expect([unhandled, await world.orders()]).toEqual([[], 2])
    })

    it('rejects and leaves the transaction open if it is awaited, immediately or later', async () => {
      await using world = await open()
      const wrapped = async (transaction: Handle) => appendTo(world, transaction)
      const unhandled = await unhandledDuring(async () => {
        await world.database.write(async (transaction) => {
          const first = appendTo(world, transaction)
          await world.insert(transaction, '1')
          expect(await failureOf(first)).toMatchObject(tooLarge)
          expect(await failureOf(appendTo(world, transaction))).toMatchObject(tooLarge)
          expect(await failureOf(wrapped(transaction))).toMatchObject(tooLarge)
          void appendTo(world, transaction).catch(() => {})
        }, settings)
      })
      expect([unhandled, await world.orders()]).toEqual([[], 1])
    })

    it('is an unhandled rejection where there is no transaction to fail: in a transaction of the user, and after the end', async () => {
      await using world = await open()
      let kept: Handle | undefined
      const unhandled = await unhandledDuring(async () => {
        await world.begin(async (transaction) => {
          void appendTo(world, transaction)
          await world.insert(transaction, '1')
        })
        await world.database.write(async (transaction) => {
          kept = transaction
        }, settings)
        void appendTo(world, kept as Handle, 1)
      })
      expect(unhandled).toMatchObject([tooLarge, { code: 'ACKORD_SCOPE_ENDED' }])
      expect(await world.orders()).toBe(1)
    })
  })
}

onEachClient(testUnawaitedAppend)

import { jsonMarshaler, marshal, rootContext, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { sqlOutbox } from '../../src/index.ts'
import { type ClientWorld, onEachClient } from '../support/client-worlds.ts'
import { event, failureOf } from '../support/world.ts'

const failure = new Error('failed')
const settings = { logger: silentLogger, retries: 0 }

function testNestedWrites<Handle>(name: string, open: () => Promise<ClientWorld<Handle>>): void {
  describe(`nested database.write() on ${name}`, () => {
    const orders = (world: ClientWorld<Handle>) => world.column('SELECT id FROM orders ORDER BY id')

    it('takes turns with others in the same transaction: each is committed or undone by itself', async () => {
      await using world = await open()
      const { database } = world
      const results = await database.write(async (outer, context) => {
        await world.insert(outer, 'outer')
        const nested = (id: string) =>
          database.write(
            async (transaction) => {
              await world.insert(transaction, id)
              await new Promise((resolve) => setTimeout(resolve, 5))
              if (id.startsWith('fails')) throw failure
              await world.insert(transaction, `${id}-too`)
            },
            { context },
          )
        return await Promise.allSettled(['one', 'fails', 'two', 'fails again', 'three'].map(nested))
      }, settings)
      expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled'])
      expect(await orders(world)).toEqual(['one', 'one-too', 'outer', 'three', 'three-too', 'two', 'two-too'])
    })

    it('does not wait for the nested write() that it is called in, although it uses the context of the outer one', async () => {
      await using world = await open()
      const { database } = world
      await database.write(async (_, context) => {
        await database.write(
          async (transaction) => {
            await world.insert(transaction, 'one')
            await database.write((inner) => world.insert(inner, 'two'), { context })
          },
          { context },
        )
      }, settings)
      expect(await orders(world)).toEqual(['one', 'two'])
    })

    it('is awaited by the transaction if the handler does not await it', async () => {
      await using world = await open()
      const { database } = world
      await database.write(async (outer, context) => {
        await world.insert(outer, 'outer')
        void database.write(
          async (transaction) => {
            await new Promise((resolve) => setTimeout(resolve, 20))
            await world.insert(transaction, 'nested')
          },
          { context },
        )
      }, settings)
      expect(await orders(world)).toEqual(['nested', 'outer'])
    })

    it('is rejected when the outer transaction has ended', async () => {
      await using world = await open()
      const { database } = world
      const context = await database.write(async (_, inside) => inside, settings)
      expect(await failureOf(database.write((transaction) => world.insert(transaction, 'late'), { context }))).toMatchObject({
        code: 'ACKORD_SCOPE_ENDED',
      })
      expect(await orders(world)).toEqual([])
    })

    it('fails the whole transaction when it cannot be rolled back', async () => {
      await using world = await open()
      const { database } = world
      const failed = database.write(async (outer, context) => {
        await world.insert(outer, 'outer')
        await world.run(outer, 'SAVEPOINT mine')
        const nested = database.write(
          async (transaction) => {
            await world.insert(transaction, 'nested')
            // RELEASE SAVEPOINT also releases all later savepoints.
            await world.run(transaction, 'RELEASE SAVEPOINT mine')
            throw failure
          },
          { context },
        )
        expect(await failureOf(nested)).toBe(failure)
      }, settings)
      expect(await failureOf(failed)).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED' })
      expect(await orders(world)).toEqual([])
    })
  })

  describe(`append() and cancel() on a client of the user on ${name}`, () => {
    const record = (id: string) => ({ destination: 'events', message: marshal(event(id), jsonMarshaler) })
    const begin = name === 'pg' || name.includes('maria') || name.includes('mysql') ? 'START TRANSACTION' : 'BEGIN'

    it('are rejected after the transaction has ended, whatever was passed to withTransaction()', async () => {
      await using world = await open()
      const { database } = world
      const outbox = sqlOutbox(database, { logger: silentLogger })
      await using client = await world.connect()
      await world.run(client, begin)
      database.withTransaction(rootContext(), client)
      await outbox.append(client, [record('inside')])
      await world.run(client, 'COMMIT')
      const reference = { destination: 'events', source: `${event('inside').attributes.source}`, id: 'inside' }
      for (const call of [outbox.append(client, [record('outside')]), outbox.cancel(client, [reference]), outbox.readAppended?.(client)])
        expect(await failureOf(Promise.resolve(call))).toMatchObject({ code: 'ACKORD_TRANSACTION_REQUIRED' })
      await world.run(client, begin)
      await outbox.append(client, [record('inside again')])
      await world.run(client, 'COMMIT')
      expect(await world.column('SELECT id FROM ackord_outbox ORDER BY seq')).toEqual(['inside', 'inside again'])
    })
  })
}

onEachClient(testNestedWrites)

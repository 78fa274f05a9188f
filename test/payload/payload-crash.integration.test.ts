import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Message, Router, silentLogger } from '@ackord/core'
import { claimCheck, decodePayload, encrypted, fileObjects, staticKeys } from '@ackord/core/payload'
import { sqlOutbox, transactional } from '@ackord/sql'
import { type CrashTestOptions, crashTest, type PublishedEvent } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { type OrdersKind, postgresOrders, sqliteOrders } from '../testing/sql-orders.ts'

const keys = staticKeys({ current: 'k', keys: { k: new Uint8Array(32).fill(7) } })

/** A service that saves an order, and stores the data of its event as an encrypted object. */
function serviceOn<Client>(kind: OrdersKind<Client>, directory: string): Pick<CrashTestOptions, 'open' | 'eventOf'> {
  const codecs = [encrypted({ keys }), claimCheck({ store: fileObjects(directory), above: 0 })]
  return {
    async open() {
      const home = await kind.open()
      return {
        async start(life) {
          const orders = await home.connect(life)
          const router = new Router({ source: '/orders', logger: silentLogger }).use(
            transactional(orders.database, {
              inbox: { consumer: 'orders' },
              outbox: { destination: 'order-events', codecs },
              transaction: { logger: silentLogger },
            }),
          )
          router.handle({
            type: 'order.place',
            async handle({ data }) {
              const { orderId } = data as { readonly orderId: string }
              await orders.insert(orders.database.executor(), orderId)
              return [new Message({ orderId }, { type: 'order.placed' })]
            },
          })
          return {
            handle: (source) => router.run(source),
            outbox: sqlOutbox(orders.database, { logger: silentLogger }),
            async close() {
              await orders.close()
            },
          }
        },
        state: home.committed,
        close: () => home[Symbol.asyncDispose](),
      }
    },
    // The bytes differ: each attempt encrypts with a nonce of its own.
    eventOf: ({ destination, message }: PublishedEvent) => ({ destination, id: message.id, type: message.type }),
  }
}

describe.each([postgresOrders, sqliteOrders] as readonly OrdersKind<unknown>[])('a service on $name', (kind) => {
  it('that is killed between the upload and the commit has its effect once, and leaves an object of no message', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'ackord-payload-'))
    try {
      const point = 'transaction.beforeCommit'
      const { open, eventOf } = serviceOn(kind, directory)
      const published: PublishedEvent[] = []
      const results = await crashTest({
        open,
        message: { type: 'order.place', data: { orderId: 'o-1' } },
        name: kind.name,
        points: [point],
        eventOf(event) {
          published.push(event)
          return eventOf?.(event)
        },
      })
      expect(results.rows.map(({ scenario, result }) => [scenario, result])).toEqual([
        ['not killed', 'passed'],
        [`killed at ${point}`, 'passed'],
      ])
      const codecs = [encrypted({ keys }), claimCheck({ store: fileObjects(directory) })]
      for (const { message } of published) {
        expect(new TextDecoder().decode((await decodePayload(message, codecs)).data)).toBe('{"orderId":"o-1"}')
      }
      // One of the run without a crash, and two of the other run.
      expect(await readdir(directory)).toHaveLength(3)
      expect(new Set(published.map(({ message }) => new TextDecoder().decode(message.data))).size).toBe(2)
    } finally {
      await rm(directory, { recursive: true })
    }
  })
})

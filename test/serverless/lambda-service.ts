import { commandHandler, defineEvent, type Publisher, silentLogger } from '@ackord/core'
import type { Relay } from '@ackord/outbox'
import type { Service } from '@ackord/outbox/service'
import type { SqlOutbox } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { createService } from '@ackord/sql/service'
import type { pg } from '../../packages/sql/test/support/pg.ts'

type Pool = InstanceType<typeof pg.Pool>

export interface FunctionOptions {
  /** The mode of the outbox. Default: `table`, without order. */
  readonly mode?: 'table' | 'log' | undefined
}

export interface FunctionParts {
  readonly service: Service<SqlOutbox<Pool>>
  readonly relay: Relay
}

export const placeOrder = defineEvent<{ readonly id: string; readonly poison?: boolean; readonly hangs?: boolean }>('order.place')
const orderPlaced = defineEvent<{ readonly orderId: string }>('order.placed')

/** A service that places orders in the table `placed`, and publishes its events to the table `published`, which stands for a broker. */
export function createFunction(pool: Pool, { mode = 'table' }: FunctionOptions = {}): FunctionParts {
  const database = fromPg(pool, { logger: silentLogger })
  const publisher: Publisher = {
    async publish(_destination, messages) {
      for (const { id } of messages) await pool.query('INSERT INTO published (id) VALUES ($1)', [id])
      return messages.map(() => ({ ok: true }))
    },
  }
  const placing = commandHandler({ type: placeOrder, source: '/orders' }, async ({ id, poison, hangs }, context) => {
    await database.executor().query('INSERT INTO placed (id) VALUES ($1)', [id])
    if (poison === true) throw new TypeError(`order ${id} cannot be placed`)
    if (hangs === true) await new Promise((_, reject) => context.signal.addEventListener('abort', () => reject(context.signal.reason)))
    return [orderPlaced({ orderId: id }, { partitionkey: id })]
  })
  const service = createService({
    database,
    consumer: 'orders',
    handlers: [placing],
    publisher,
    destination: 'order-events',
    concurrency: 5,
    ...(mode === 'log' ? { outbox: { order: 'perKey' as const, mode } } : {}),
    relay: { lease: 1500, publishTimeout: 500 },
    logger: silentLogger,
  })
  // A service with a publisher has a relay.
  return { service, relay: service.relay as Relay }
}

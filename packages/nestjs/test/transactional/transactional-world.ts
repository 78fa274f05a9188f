import 'reflect-metadata'
import { defineEvent, eventHandler, jsonMarshaler, MemoryBroker, marshal, publishAll, silentLogger } from '@ackord/core'
import { Database, type SqlOutbox, sqlOutbox } from '@ackord/sql'
import { fromTypeorm } from '@ackord/sql/postgres'
import { createService } from '@ackord/sql/service'
import { Inject, Injectable, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { Propagation, Transactional, TransactionHost } from '@nestjs-cls/transactional'
import { ClsModule, type ClsPlugin } from 'nestjs-cls'
import { DataSource, type EntityManager } from 'typeorm'
import { openSchema, postgresUrl, startOptions } from '../../../sql/test/support/own-schema.ts'
import { ClsPluginAckord, type TransactionalAdapterAckord } from '../../src/transactional/index.ts'

export const orderPlaced = defineEvent<{ readonly id: string }>('order.placed')
const placeOrder = defineEvent<{ readonly id: string }>('order.place')
const outboxToken = Symbol('outbox')

/** A service as applications write them: it knows nothing of messages. */
@Injectable()
class Orders {
  @Inject(TransactionHost)
  readonly host!: TransactionHost<TransactionalAdapterAckord<EntityManager>>

  @Inject(Database)
  readonly database!: Database<EntityManager>

  @Inject(outboxToken)
  readonly outbox!: SqlOutbox<EntityManager>

  /** Stores an order through the transaction of nestjs-cls. */
  async insert(id: string): Promise<void> {
    await this.host.tx.query('INSERT INTO orders (id) VALUES ($1)', [id])
  }

  async #place(id: string, fails: boolean): Promise<void> {
    await this.insert(id)
    await this.outbox.append(this.database.executor(), orderPlaced({ id }))
    if (fails) throw new Error(`The order ${id} is refused.`)
  }

  @Transactional()
  async place(id: string, { fails = false } = {}): Promise<void> {
    await this.#place(id, fails)
  }

  @Transactional(Propagation.RequiresNew)
  async placeSeparately(id: string, { fails = false } = {}): Promise<void> {
    await this.#place(id, fails)
  }

  @Transactional(Propagation.Nested)
  async placeNested(id: string, { fails = false } = {}): Promise<void> {
    await this.#place(id, fails)
  }

  @Transactional(Propagation.Mandatory)
  async placeInside(id: string): Promise<void> {
    await this.#place(id, false)
  }

  @Transactional(Propagation.Never)
  async placeAlone(id: string): Promise<void> {
    await this.insert(id)
  }

  @Transactional(Propagation.NotSupported)
  async insertOutside(id: string): Promise<void> {
    await this.insert(id)
  }

  @Transactional<TransactionalAdapterAckord<EntityManager>>({ isolation: 'serializable' })
  async isolation(): Promise<unknown> {
    return await this.host.tx.query('SHOW transaction_isolation')
  }
}

/** An application on PostgreSQL with nestjs-cls. `plugin` creates its plugin. Default: that of this package. */
export async function openWorld(plugin: (imports: unknown[]) => ClsPlugin = () => new ClsPluginAckord({ databaseToken: Database })) {
  const own = await openSchema()
  const { schema } = own
  const extra = { max: 4, options: startOptions(schema) }
  const dataSource = new DataSource({ type: 'postgres', url: postgresUrl, extra, schema, logging: false, nativeDriver: false })
  await dataSource.initialize()
  const database = fromTypeorm(dataSource, { schema })
  await own.createTables(database)
  const outbox = sqlOutbox(database, { source: '/orders', destination: 'order-events' })

  @Module({
    providers: [
      { provide: DataSource, useValue: dataSource },
      { provide: Database, useValue: database },
      { provide: outboxToken, useValue: outbox },
    ],
    exports: [DataSource, Database, outboxToken],
  })
  class StoreModule {}

  @Module({
    imports: [{ module: StoreModule, global: true }, ClsModule.forRoot({ plugins: [plugin([StoreModule])] })],
    providers: [Orders],
  })
  class AppModule {}

  const app = await NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false })
  return {
    ...own,
    app,
    database,
    outbox,
    dataSource,
    service: app.get(Orders),
    /** The ids of the stored orders, and of the orders of the stored events. */
    async stored() {
      const orders = await own.query(`SELECT id FROM ${schema}.orders ORDER BY id`)
      const events = await own.query(`SELECT convert_from(data, 'utf8')::jsonb->>'id' AS id FROM ${schema}.ackord_outbox ORDER BY 1`)
      return { orders: orders.map(({ id }) => id), events: events.map(({ id }) => id) }
    },
    /** Sends one message through inbox and transaction to a handler, and resolves when it was settled for good. Returns the number of deliveries. */
    async handle(id: string, work: (delivery: number) => Promise<void>): Promise<number> {
      const broker = new MemoryBroker({ logger: silentLogger })
      let deliveries = 0
      const handler = eventHandler({ type: placeOrder }, async () => {
        deliveries += 1
        await work(deliveries)
      })
      const source = broker.source('commands')
      await using service = createService({ database, consumer: 'orders', source, handlers: [handler], logger: silentLogger })
      const sent = placeOrder({ id }, { id: `m-${id}`, source: '/test' })
      await publishAll(broker, 'commands', [marshal(sent, jsonMarshaler)])
      service.start()
      await broker.idle('commands')
      return deliveries
    },
    async [Symbol.asyncDispose]() {
      await app.close()
      await dataSource.destroy()
      await own[Symbol.asyncDispose]()
    },
  }
}

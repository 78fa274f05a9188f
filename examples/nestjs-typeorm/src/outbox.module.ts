import { createSchema, type Database, sqlOutbox } from '@ackord/sql'
import { fromTypeorm } from '@ackord/sql/mysql'
import { type DynamicModule, Global, Module } from '@nestjs/common'
import { DataSource, type EntityManager } from 'typeorm'
import { Order } from './order.entity.ts'
import { RelayService } from './relay.service.ts'
import { databaseToken, outboxToken, type Settings, settingsToken } from './settings.ts'
import { Stock } from './stock.entity.ts'

/** TypeORM, Ackord's `Database` on it, the outbox, and the relay that publishes its records to RabbitMQ. */
@Global()
@Module({})
export class OutboxModule {
  static forRoot(settings: Settings): DynamicModule {
    return {
      module: OutboxModule,
      providers: [
        { provide: settingsToken, useValue: settings },
        { provide: DataSource, useFactory: () => openDataSource(settings) },
        { provide: databaseToken, inject: [DataSource], useFactory: openDatabase },
        {
          provide: outboxToken,
          inject: [databaseToken],
          useFactory: (database: Database<EntityManager>) =>
            sqlOutbox(database, { source: '/orders', destination: settings.queue, logger: settings.logger }),
        },
        RelayService,
      ],
      exports: [settingsToken, databaseToken, outboxToken],
    }
  }
}

async function openDataSource({ databaseUrl }: Settings): Promise<DataSource> {
  // `synchronize` creates the tables of the entities. A real service has its own migrations.
  return await new DataSource({ type: 'mariadb', url: databaseUrl, entities: [Order, Stock], synchronize: true }).initialize()
}

async function openDatabase(dataSource: DataSource): Promise<Database<EntityManager>> {
  const database = fromTypeorm(dataSource)
  await createSchema(database)
  return database
}

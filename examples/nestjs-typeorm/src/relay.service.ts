import { Relay } from '@ackord/outbox'
import { declareTopology, rabbitmqPublisher } from '@ackord/rabbitmq'
import type { SqlOutbox } from '@ackord/sql'
import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common'
import { connect } from 'amqplib'
import { DataSource, type EntityManager } from 'typeorm'
import { outboxToken, type Settings, settingsToken } from './settings.ts'

/** Runs the relay for as long as the application runs. */
@Injectable()
export class RelayService implements OnModuleInit, OnApplicationShutdown {
  readonly #dataSource: DataSource
  readonly #outbox: SqlOutbox<EntityManager>
  readonly #settings: Settings
  #stop: (() => Promise<void>) | undefined

  constructor(
    @Inject(DataSource) dataSource: DataSource,
    @Inject(outboxToken) outbox: SqlOutbox<EntityManager>,
    @Inject(settingsToken) settings: Settings,
  ) {
    this.#dataSource = dataSource
    this.#outbox = outbox
    this.#settings = settings
  }

  async onModuleInit(): Promise<void> {
    const { brokerUrl, queue, logger } = this.#settings
    const connection = await connect(brokerUrl, { recovery: true })
    await declareTopology(connection, { queues: { [queue]: {} } })
    const publisher = rabbitmqPublisher(connection, { logger })
    const relay = new Relay(this.#outbox, { publisher, logger }).start()
    this.#stop = async () => {
      await relay.stop()
      await publisher[Symbol.asyncDispose]()
      await connection.close()
    }
  }

  /** Nest has closed the HTTP server by now. The relay finishes publishing, unpublished records stay in the outbox, then the database is closed. */
  async onApplicationShutdown(): Promise<void> {
    await this.#stop?.()
    await this.#dataSource.destroy()
  }
}

// @ts-check
import { randomUUID } from 'node:crypto'
import { DatabaseSetup, getDisabledLogger, initializeMessageStorage, initializePollingMessageListener } from 'pg-transactional-outbox'
import { connections } from '../contestant.mjs'
import { insertOrder, insertRequest, inTransaction, openPostgres, postgresUrl } from '../postgres.mjs'

/** It has no notifications, so its latency is that of the poll interval. */
const pollInterval = 10

/** @type {import('../contestant.mjs').Contestant} */
export const pgTransactionalOutbox = {
  name: 'pg_transactional_outbox',
  store: 'PostgreSQL',
  settings: `polling listener of the inbox with nextMessagesBatchSize: ${connections} from the start and nextMessagesPollingIntervalInMs: ${pollInterval}; concurrency: 'parallel'; enablePoisonousMessageProtection: false; a pool of ${connections}; the handler inserts the order and stores the event in the outbox`,
  // Each poll sorts all messages that wait, so a large backlog is out of its reach.
  measures: ['drain', 'append', 'latency'],
  against: { drain: 'ackord_source', append: 'ackord', latency: 'ackord_source' },
  open,
}

/** @returns {Promise<import('../contestant.mjs').Session>} */
async function open() {
  const world = await openPostgres()
  const { queueSchema } = world
  const logger = getDisabledLogger()
  const setupOf = (/** @type {'inbox' | 'outbox'} */ table) => ({
    outboxOrInbox: table,
    database: 'test',
    schema: queueSchema,
    table,
    listenerRole: 'postgres',
    nextMessagesName: `next_${table}_messages`,
  })
  const configOf = (/** @type {'inbox' | 'outbox'} */ table) => ({
    outboxOrInbox: table,
    dbListenerConfig: { connectionString: postgresUrl, max: connections, options: world.searchPath },
    settings: {
      dbSchema: queueSchema,
      dbTable: table,
      nextMessagesFunctionSchema: queueSchema,
      nextMessagesFunctionName: `next_${table}_messages`,
      nextMessagesBatchSize: connections,
      nextMessagesPollingIntervalInMs: pollInterval,
      enableMaxAttemptsProtection: true,
      enablePoisonousMessageProtection: false,
      messageCleanupIntervalInMs: 0,
    },
  })
  for (const table of /** @type {const} */ (['inbox', 'outbox'])) {
    await world.admin.query(DatabaseSetup.dropAndCreateTable(setupOf(table)))
    await world.admin.query(DatabaseSetup.createPollingFunction(setupOf(table)))
    await world.admin.query(DatabaseSetup.setupPollingIndexes(setupOf(table)))
  }
  const storeInInbox = initializeMessageStorage(configOf('inbox'), logger)
  const storeInOutbox = initializeMessageStorage(configOf('outbox'), logger)
  /** @type {(() => Promise<void>) | undefined} */
  let shutdown

  /** @param {string} messageType @param {string} orderId @param {object} payload */
  const messageOf = (messageType, orderId, payload) => ({
    id: randomUUID(),
    aggregateType: 'order',
    aggregateId: orderId,
    messageType,
    concurrency: /** @type {const} */ ('parallel'),
    payload,
  })
  const append = (/** @type {import('../contestant.mjs').Order} */ order) =>
    world.write(async (client) => {
      await client.query(insertRequest, [order.id, order.total])
      await storeInInbox(messageOf('place', order.id, order), client)
    })

  return {
    async fill(orders) {
      await inTransaction(world.writers, async (client) => {
        for (const order of orders) await storeInInbox(messageOf('place', order.id, order), client)
      })
      await world.vacuum()
    },
    async start(onOrder) {
      const [end] = initializePollingMessageListener(
        configOf('inbox'),
        {
          async handle({ payload }, client) {
            const { id, total } = /** @type {import('../contestant.mjs').Order} */ (payload)
            onOrder(id)
            await client.query(insertOrder, [id, total])
            await storeInOutbox(messageOf('placed', id, { orderId: id, total }), client)
          },
        },
        logger,
        { batchSizeStrategy: async () => connections },
      )
      shutdown = end
    },
    async stop() {
      await shutdown?.()
      shutdown = undefined
    },
    append,
    send: append,
    orders: () => world.count('SELECT count(*) FROM orders'),
    state: async () => ({
      waiting: await world.count(`SELECT count(*) FROM ${queueSchema}.inbox WHERE processed_at IS NULL`),
      events: await world.count(`SELECT count(*) FROM ${queueSchema}.outbox`),
    }),
    close: () => world.close(),
  }
}

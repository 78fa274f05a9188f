import { silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { rabbitmqPublisher } from '@ackord/rabbitmq'
import { sqlOutbox } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { connect } from 'amqplib'
import pg from 'pg'
import { postgresUrl, rabbitmqUrl } from '../load/load-plan.ts'
import { runMember } from '../load/member.ts'
import { lease, schema } from './relays-plan.ts'

/** One of many relays on a store with order per key. */
await runMember(async () => {
  const pool = new pg.Pool({ connectionString: postgresUrl, max: 2 })
  const connection = await connect(rabbitmqUrl, { recovery: true })
  const publisher = rabbitmqPublisher(connection, { logger: silentLogger })
  const outbox = sqlOutbox(fromPg(pool, { schema, logger: silentLogger }), { order: 'perKey', logger: silentLogger })
  const relay = new Relay(outbox, { publisher, lease, statsInterval: false, logger: silentLogger }).start()
  return {
    published: () => relay.health().published,
    async stop() {
      await relay.stop()
      await publisher[Symbol.asyncDispose]()
      await connection.close()
      await pool.end()
    },
  }
})

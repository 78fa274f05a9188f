import { silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { rabbitmqPublisher } from '@ackord/rabbitmq'
import { sqlOutbox } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { connect } from 'amqplib'
import pg from 'pg'
import { postgresUrl, rabbitmqUrl, schema } from './load-plan.ts'
import { runMember } from './member.ts'

/** A relay alone, as `ackord relay` runs one. */
await runMember(async () => {
  const pool = new pg.Pool({ connectionString: postgresUrl, max: 2 })
  const connection = await connect(rabbitmqUrl, { recovery: true })
  const publisher = rabbitmqPublisher(connection, { logger: silentLogger })
  const outbox = sqlOutbox(fromPg(pool, { schema, logger: silentLogger }), { logger: silentLogger })
  const relay = new Relay(outbox, { publisher, logger: silentLogger }).start()
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

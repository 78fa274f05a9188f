import { sqlIdempotency, sqlInbox, sqlOutbox, startCleanup, validateSchema } from '@ackord/sql'
import { createService } from '@ackord/sql/service'
import type { ConsumerParts, InstanceStore } from './instance-store.ts'
import type { AckordSqlOptions } from './options.ts'

/** All services of an instance work on the same tables; what they commit wakes its relay. */
export function sqlStore<Handle>(options: AckordSqlOptions<Handle>): InstanceStore {
  const { database, outbox: outboxOptions, inbox, transaction, groupCommit, cleanup, publisher, relay, checkSchema = true } = options
  const { destination, eventSource, marshaler, codecs, codecTimeout, logger, metrics, telemetry, runtime } = options
  const ports = { logger, runtime }
  const events = { destination, marshaler, codecs, codecTimeout }
  const common = { database, outbox: outboxOptions, eventSource, ...events, metrics, telemetry, ...ports }
  const tables = { schema: outboxOptions?.schema, names: outboxOptions?.names }
  const publishing = publisher === undefined ? undefined : createService({ ...common, publisher, relay, cleanup })

  function ownOutbox() {
    const outbox = sqlOutbox(database, { ...outboxOptions, source: eventSource, ...events, ...ports })
    return telemetry?.outbox(outbox) ?? outbox
  }

  return {
    database,
    outbox: publishing?.outbox ?? ownOutbox(),
    inbox: sqlInbox(database, { ...tables, logger }),
    idempotency: sqlIdempotency(database, { ...tables, runtime }),
    publishing,
    createConsumer: ({ name, options: { source, ...consumer }, handlers }: ConsumerParts) =>
      createService({
        ...common,
        ...consumer,
        consumer: name,
        source,
        handlers,
        inbox,
        transaction,
        groupCommit,
        cleanup: false,
      }),
    async check() {
      if (checkSchema) await validateSchema(database, tables)
    },
    ...(publishing !== undefined || cleanup === false
      ? {}
      : { startCleanup: () => startCleanup(database, { ...tables, ...cleanup, metrics: metrics ?? telemetry?.metrics, ...ports }) }),
  }
}

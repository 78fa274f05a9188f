import {
  AckordError,
  deterministicIds,
  enter,
  type Logger,
  type Message,
  type Metrics,
  type Middleware,
  middleware,
  outputIdsKey,
  probe,
  silentLogger,
  TransactionRequiredError,
} from '@ackord/core'
import { checkFunction, checkName, checkNoMore, guardLogger, guardMetrics, nameOf } from '@ackord/core/internal'
import { type Database, portOf } from './database.ts'
import { inboxKeyOf, problemOf } from './inbox-key.ts'
import { explainMissing } from './schema-missing.ts'
import type { TableOptions } from './tables.ts'

export interface InboxOptions extends TableOptions {
  /** Names this reader, so that two consumers may each process a message once. It has no default: shared by accident, it loses messages. */
  readonly consumer: string
  /** What makes a message the same one, in place of its source and id. Default: source and id. */
  readonly key?: ((message: Message) => string) | undefined
  /** Told each duplicate, before it is acked. What it throws fails the message. Default: nothing. */
  readonly onDuplicate?: ((message: Message) => void | Promise<void>) | undefined
  /** Gets a debug line per duplicate. Default: none. */
  readonly logger?: Logger | undefined
  /** Counts `ackord.inbox.duplicates`. Default: none. */
  readonly metrics?: Metrics | undefined
}

/** In bytes; see `longestKeyPart`. */
const longestConsumer = 255

/**
 * Handles a message once: it is recorded in the transaction of the business writes, so that both are there or neither.
 * A duplicate is acked and not handled. Outputs need an outbox inside: handed to a broker after the commit, a crash would lose them.
 */
export function inboxMiddleware<Handle>(database: Database<Handle>, options: InboxOptions): Middleware {
  const { key, onDuplicate, schema, names, ...ports } = options
  const { consumer: name, logger: givenLogger = silentLogger, metrics: givenMetrics, ...unknown } = ports
  checkNoMore('inboxMiddleware()', unknown)
  const consumer = checkConsumer(name)
  const logger = guardLogger(givenLogger)
  const metrics = givenMetrics === undefined ? undefined : guardMetrics(givenMetrics)
  if (key !== undefined) checkFunction('key', key)
  if (onDuplicate !== undefined) checkFunction('onDuplicate', onDuplicate)
  const { dialect, find, tables } = portOf(database)
  const table = tables({ schema, names }).inbox
  const recordOf = dialect.recorder(table)

  return middleware(
    { role: 'inbox', resource: database },
    (next) =>
      async function inbox(message, context) {
        const transaction = find(context)
        if (transaction === undefined) throw new TransactionRequiredError('inboxMiddleware()')
        const identity = inboxKeyOf(message, consumer, key)
        let isNew: boolean
        try {
          isNew = (await transaction.change(recordOf(identity))) === 1
        } catch (error) {
          throw explainMissing(dialect, error, table)
        }
        if (!isNew) {
          metrics?.count('ackord.inbox.duplicates', 1, { consumer })
          logger.debug({ consumer, type: message.type, id: message.id }, 'A duplicate was skipped.')
          await onDuplicate?.(message)
          await message.ack() // Also under `manual`, where nobody else would; held until the commit.
          return []
        }
        const paused = probe('inbox.recorded')
        if (paused !== undefined) await paused

        const inside = context.with(outputIdsKey, deterministicIds(consumer, identity.source, identity.id))
        const outputs = await enter(inside, () => next(message, inside))
        if (outputs.length > 0) throw outputsWithoutOutbox(message, outputs.length)
        return outputs
      },
  )
}

function checkConsumer(consumer: string): string {
  checkName('consumer', consumer)
  const problem = problemOf(consumer, longestConsumer)
  if (problem !== undefined) throw new AckordError('ACKORD_INVALID_OPTION', `consumer ${problem}.`)
  return consumer
}

function outputsWithoutOutbox(message: Message, count: number): AckordError {
  return new AckordError(
    'ACKORD_INVALID_OUTPUT',
    `Handling ${nameOf(message)} gave ${count} outputs, and there is an inbox around it but no outbox. If the process ended after the commit they would be lost, because the message would come back as a duplicate. Add outboxMiddleware() inside of the inbox.`,
  )
}

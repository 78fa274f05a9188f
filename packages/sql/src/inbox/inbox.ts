import {
  AckordError,
  type Context,
  deterministicIds,
  type Logger,
  type Message,
  type Metrics,
  type Middleware,
  middleware,
  type Process,
  silentLogger,
  TransactionRequiredError,
} from '@ackord/core'
import {
  checkFunction,
  checkName,
  checkNoMore,
  enterWith,
  guardLogger,
  guardMetrics,
  nameOf,
  outputIdsKey,
  probe,
} from '@ackord/core/internal'
import type { TableOptions } from '../contract/database-options.ts'
import { explainMissing } from '../contract/schema-missing.ts'
import { type InboxKey, inboxKeyOf, problemOf } from '../records/inbox-key.ts'
import { type Database, portOf } from '../transaction/database.ts'
import type { DatabasePort, OpenTransaction } from '../transaction/open-transaction.ts'

export interface InboxOptions extends TableOptions {
  /** Names this reader, so that two consumers may each process a message once. It has no default: shared by accident, it loses messages. */
  readonly consumer: string
  /** Identifies a message, instead of its source and id. Default: source and id. */
  readonly key?: ((message: Message) => string) | undefined
  /** Called with each duplicate, before it is acked. An error it throws fails the message. Optional. */
  readonly onDuplicate?: ((message: Message) => void | Promise<void>) | undefined
  /** Receives a debug line per duplicate. Default: none. */
  readonly logger?: Logger | undefined
  /** Counts `ackord.inbox.duplicates`. Default: none. */
  readonly metrics?: Metrics | undefined
}

/** The two ways to continue once it is known whether a message is new. */
export interface Inbox {
  readonly table: string
  keyOf(message: Message): InboxKey
  /** For a new message that has been recorded. */
  handle(next: Process, message: Message, context: Context, key: InboxKey): Promise<readonly Message[]>
  /** For a duplicate. */
  skip(message: Message): Promise<readonly Message[]>
}

/** In bytes; see `maxKeyPartBytes`. */
const maxConsumerBytes = 255

export function openInbox<Handle>(port: DatabasePort<Handle>, options: InboxOptions): Inbox {
  const { key, onDuplicate, schema, names, ...ports } = options
  const { consumer: name, logger: givenLogger = silentLogger, metrics: givenMetrics, ...unknown } = ports
  checkNoMore('inboxMiddleware()', unknown)
  const consumer = checkConsumer(name)
  const logger = guardLogger(givenLogger)
  const metrics = givenMetrics === undefined ? undefined : guardMetrics(givenMetrics)
  if (key !== undefined) checkFunction('key', key)
  if (onDuplicate !== undefined) checkFunction('onDuplicate', onDuplicate)

  return {
    table: port.tables({ schema, names }).inbox,
    keyOf: (message) => inboxKeyOf(message, consumer, key),

    handle(next, message, context, { source, id }) {
      const inside = context.with(outputIdsKey, deterministicIds(consumer, source, id))
      const paused = probe('inbox.recorded')
      return paused === undefined ? enterWith(inside, next, message) : paused.then(() => enterWith(inside, next, message))
    },

    async skip(message) {
      metrics?.count('ackord.inbox.duplicates', 1, { consumer })
      logger.debug({ consumer, type: message.type, id: message.id }, 'A duplicate was skipped.')
      await onDuplicate?.(message)
      await message.ack() // Also under `manual`, where nothing else acks it; held until the commit.
      return []
    },
  }
}

function checkConsumer(consumer: string): string {
  checkName('consumer', consumer)
  const problem = problemOf(consumer, maxConsumerBytes)
  if (problem !== undefined) throw new AckordError('ACKORD_INVALID_OPTION', `consumer ${problem}.`)
  return consumer
}

/** Fails if an output is left: without an outbox inside of the inbox it would be lost in a crash. */
function withoutOutputs(next: Process): Process {
  return function refuseOutputs(message, context) {
    return next(message, context).then((outputs) => {
      if (outputs.length > 0) throw outputsWithoutOutbox(message, outputs.length)
      return outputs
    })
  }
}

function outputsWithoutOutbox(message: Message, count: number): AckordError {
  return new AckordError(
    'ACKORD_INVALID_OUTPUT',
    `Handling ${nameOf(message)} returned ${count} outputs, and there is an inbox around it but no outbox. If the process crashed after the commit they would be lost, because the redelivered message would be skipped as a duplicate. Add outboxMiddleware() inside of the inbox.`,
  )
}

/**
 * Handles a message once: it is recorded in the transaction of the business writes, so that both are committed or neither. A duplicate is acked and
 * not handled. Outputs require an outbox inside: if they were published after the commit, a crash would lose them.
 */
export function inboxMiddleware<Handle>(database: Database<Handle>, options: InboxOptions): Middleware {
  return inboxAround(database, options, withoutOutputs)
}

/** Like `inboxMiddleware`, around a process that is known to return no outputs. */
export function inboxAround<Handle>(
  database: Database<Handle>,
  options: InboxOptions,
  inside: (next: Process) => Process = (next) => next,
): Middleware {
  const port = portOf(database)
  const inbox = openInbox(port, options)
  const { dialect, find } = port
  const recordOf = dialect.recorder(inbox.table)

  const fail = (error: unknown): never => {
    throw explainMissing(dialect, error, inbox.table)
  }

  function record(transaction: OpenTransaction<Handle>, key: InboxKey): number | Promise<number> {
    try {
      return transaction.change(recordOf(key))
    } catch (error) {
      return fail(error)
    }
  }

  return middleware({ role: 'inbox', resource: database }, (next) => {
    const process = inside(next)

    // No async/await on the hot path: saves promises, and there may be nothing to wait for.
    return function handleOnce(message, context) {
      try {
        const transaction = find(context)
        if (transaction === undefined) throw new TransactionRequiredError('inboxMiddleware()')
        const key = inbox.keyOf(message)
        const goOn = (count: number) => (count === 1 ? inbox.handle(process, message, context, key) : inbox.skip(message))
        const recording = record(transaction, key)
        return typeof recording === 'number' ? goOn(recording) : recording.then(goOn, fail)
      } catch (error) {
        return Promise.reject(error)
      }
    }
  })
}

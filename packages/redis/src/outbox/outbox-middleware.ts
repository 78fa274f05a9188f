import {
  AckordError,
  type Destination,
  jsonMarshaler,
  type Marshaler,
  type Message,
  type Middleware,
  marshal,
  middleware,
  type Runtime,
  TransactionRequiredError,
} from '@ackord/core'
import {
  ackingOf,
  checkFunction,
  checkName,
  checkNoMore,
  destinationOf,
  nameOf,
  outputCompleter,
  type TransactionScope,
} from '@ackord/core/internal'
import type { OutboxWriter } from '@ackord/outbox'
import { internalsOf, type Redis } from '../transaction/redis.ts'
import type { RedisTransaction } from '../transaction/transaction.ts'

export interface OutboxOptions {
  /** Where the outputs are stored. */
  readonly outbox: OutboxWriter<RedisTransaction>
  /** The destination of an output: always the same, or a function of the output. */
  readonly destination: Destination
  /** Default: JSON. */
  readonly marshaler?: Marshaler | undefined
  /** The source of outputs that middleware added without one. Default: none, and they are refused. */
  readonly source?: string | undefined
  /** Default: the runtime of the Redis object. */
  readonly runtime?: Runtime | undefined
}

/** Stores the outputs in the transaction of the business writes and passes none on; a relay publishes them after the commit. */
export function outboxMiddleware(redis: Redis, options: OutboxOptions): Middleware {
  const internals = internalsOf(redis)
  const { outbox, destination, marshaler = jsonMarshaler, source, runtime = internals.runtime, ...unknown } = options
  checkNoMore('outboxMiddleware()', unknown)
  checkFunction('outbox.append', outbox?.append)
  if (typeof destination !== 'function') checkName('destination', destination)
  const complete = outputCompleter(runtime, source)

  return middleware({ role: 'outbox', resource: redis }, (next) => {
    // No async/await on the hot path: saves promises.
    return function storeOutputs(message, context) {
      // Before the handler runs: its side effects could not be undone.
      const transaction = internals.find(context)
      if (transaction === undefined) return Promise.reject(new TransactionRequiredError('outboxMiddleware()'))
      return next(message, context).then((given) => {
        if (given.length === 0) return given
        // The router completes the handler's outputs; middleware in between may have added others.
        const outputs = complete(given, message, context)
        // All outputs are marshalled before the first is stored: if one fails and the error is caught, none of them must be stored.
        const records = outputs.map((output) => ({ destination: destinationOf(output, destination), message: marshal(output, marshaler) }))
        return outbox.append(transaction, records).then(() => {
          settleWith(transaction.scope, outputs, message)
          return none
        })
      })
    }
  })
}

const none: readonly Message[] = []

/** An output with an acking of its own has a source that waits until it is stored. The router settles the message itself. */
function settleWith(scope: TransactionScope, outputs: readonly Message[], message: Message): void {
  for (const output of outputs) {
    const acking = ackingOf(output)
    if (acking === undefined || acking === ackingOf(message)) continue
    scope.afterCommit(async () => {
      await output.ack()
    })
    scope.afterRollback(async () => {
      await output.nack(
        new AckordError('ACKORD_TRANSACTION_ABORTED', `The transaction that was to store ${nameOf(output)} was rolled back.`),
      )
    })
  }
}

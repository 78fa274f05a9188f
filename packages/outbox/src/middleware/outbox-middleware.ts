import {
  AckordError,
  type Context,
  type Destination,
  jsonMarshaler,
  type Marshaler,
  type Message,
  type Middleware,
  marshal,
  middleware,
  type Runtime,
  systemRuntime,
  TransactionRequiredError,
} from '@ackord/core'
import {
  ackingOf,
  checkName,
  codecChain,
  delayOf,
  describeMessage,
  destinationOf,
  outputCompleter,
  type TransactionScope,
} from '@ackord/core/internal'
import type { CodecOptions } from '@ackord/core/payload'
import type { NewOutboxRecord } from '../store/new-events.ts'
import { encodeRecords } from '../store/new-events.ts'

/**
 * The options of an outbox middleware on every store. `codecs` and `codecTimeout`: for the data of outputs. They run when the handler has returned, before the outbox is
 * written; the transaction is open meanwhile.
 */
export interface OutboxOptions extends CodecOptions {
  /** Where the relay publishes an output: a fixed destination, or one chosen per output. */
  readonly destination: Destination
  /** Default: JSON. */
  readonly marshaler?: Marshaler | undefined
  /** The source of outputs that middleware added without one. Default: none, and they are rejected. */
  readonly source?: string | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** The transactions that outputs are stored in. */
export interface OutboxTransactions<Transaction> {
  find(context: Context): Transaction | undefined
  /** Stores the records like `OutboxWriter.append`. Returns `undefined` if there is nothing to wait for. */
  append(transaction: Transaction, records: readonly NewOutboxRecord[]): Promise<unknown> | undefined
  /** `undefined` for a transaction that other code commits, and whose end is not known. */
  scopeOf(transaction: Transaction): TransactionScope | undefined
}

/**
 * Stores the outputs in the transaction of the business writes and returns none; a relay publishes them after the commit. A store with further
 * options takes them out first, and rejects unknown ones.
 */
export function createOutboxMiddleware<Transaction>(
  resource: object,
  transactions: OutboxTransactions<Transaction>,
  options: OutboxOptions,
): Middleware {
  const { destination, marshaler = jsonMarshaler, source, runtime = systemRuntime, codecs, codecTimeout } = options
  if (typeof destination !== 'function') checkName('destination', destination)
  const complete = outputCompleter(runtime, source)
  const now = () => runtime.now()
  const chain = codecChain({ codecs, codecTimeout }, runtime)

  /** Stores the outputs of a handled message; `undefined` if there is nothing to wait for. */
  function store(transaction: Transaction, outputs: readonly Message[], message: Message, context: Context): Promise<unknown> | undefined {
    // All outputs are marshalled before the first is stored: if one fails and the error is caught, none of them must be stored.
    const records = outputs.map((output) => ({
      destination: destinationOf(output, destination),
      message: marshal(output, marshaler),
      delay: delayOf(output, now),
    }))
    const appending =
      chain === undefined
        ? transactions.append(transaction, records)
        : encodeRecords(chain, records, context.signal).then((encoded) => transactions.append(transaction, encoded))
    // The router settles the message itself.
    const others = outputs.filter((output) => ackingOf(output) !== undefined && ackingOf(output) !== ackingOf(message))
    return others.length === 0 ? appending : settleWhenStored(transactions.scopeOf(transaction), others, appending)
  }

  return middleware({ role: 'outbox', resource }, (next) => {
    // No async/await on the hot path: saves promises per message.
    return function storeOutputs(message, context) {
      // Checked before the handler runs: its side effects could not be undone.
      const transaction = transactions.find(context)
      if (transaction === undefined) return Promise.reject(new TransactionRequiredError('outboxMiddleware()'))
      return next(message, context).then((outputs) => {
        if (outputs.length === 0) return outputs
        // The router has completed the handler's outputs; middleware in between may have added more.
        const storing = store(transaction, complete(outputs, message, context), message, context)
        return storing === undefined ? none : storing.then(() => none)
      })
    }
  })
}

const none: readonly Message[] = []

async function settleWhenStored(
  scope: TransactionScope | undefined,
  outputs: readonly Message[],
  appending: Promise<unknown> | undefined,
): Promise<void> {
  await appending
  for (const output of outputs) await settleWith(scope, output)
}

/** An output with its own acking came from a source that waits for it to be stored. */
async function settleWith(scope: TransactionScope | undefined, output: Message): Promise<void> {
  if (scope === undefined) {
    await output.ack()
    return
  }
  scope.afterCommit(async () => {
    await output.ack()
  })
  scope.afterRollback(async () => {
    await output.nack(
      new AckordError('ACKORD_TRANSACTION_ABORTED', `The transaction that was to store ${describeMessage(output)} was rolled back.`),
    )
  })
}

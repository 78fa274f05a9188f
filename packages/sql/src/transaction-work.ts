import { AckordError, type Context, enter, type Message, type Process, transactionScopeKey } from '@ackord/core'
import { nameOf } from '@ackord/core/internal'
import { type DatabasePort, type OwnTransaction, openTransaction } from './database.ts'
import type { QueryTracker } from './query-tracker.ts'

/** Rolls a transaction back whose work succeeded: its message was nacked or rejected inside. Never leaves the package. */
export class RollbackOnly extends Error {
  readonly reason: unknown
  readonly outputs: readonly Message[]

  constructor(reason: unknown, outputs: readonly Message[]) {
    super('The transaction may only be rolled back.')
    this.reason = reason
    this.outputs = outputs
  }
}

/** Calls `next` inside of a transaction or savepoint that is open. Rejects if it must not be committed. */
export async function transactionWork<Handle>(
  port: DatabasePort<Handle>,
  own: OwnTransaction<Handle>,
  tracker: QueryTracker,
  next: Process,
  message: Message,
  context: Context,
): Promise<readonly Message[]> {
  const { signal } = context
  const { scope } = own
  signal.throwIfAborted()
  scope.hold(message)
  const inside = port.enter(context, openTransaction(own, tracker)).with(transactionScopeKey, scope)
  // What a handler still wants to do in a transaction that will be rolled back only keeps its connection from others.
  const onAbort = () => tracker.end(() => signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  let outputs: readonly Message[]
  try {
    outputs = await enter(inside, () => next(message, inside))
    await tracker.drained()
  } finally {
    signal.removeEventListener('abort', onAbort)
    tracker.end(() => ended(message))
  }
  signal.throwIfAborted()
  if (scope.rollbackOnly !== undefined) throw new RollbackOnly(scope.rollbackOnly.error, outputs)
  return outputs
}

function ended(message: Message): AckordError {
  return new AckordError(
    'ACKORD_SCOPE_ENDED',
    `A query was started after the transaction of ${nameOf(message)} had ended. Await every query before the handler returns.`,
  )
}

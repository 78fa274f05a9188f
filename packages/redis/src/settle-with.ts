import { AckordError, type Message, type TransactionScope } from '@ackord/core'
import { ackingOf, nameOf } from '@ackord/core/internal'

/** An output with an acking of its own came from somewhere, which waits to hear whether it is stored. The message itself is the router's to settle. */
export function settleWith(scope: TransactionScope, outputs: readonly Message[], message: Message): void {
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

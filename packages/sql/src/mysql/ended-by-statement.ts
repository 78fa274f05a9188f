import { AckordError } from '@ackord/core'

/** The reason why a transaction cannot be committed any more. */
export function endedByStatement(cause?: unknown): AckordError {
  return new AckordError(
    'ACKORD_SCOPE_ENDED',
    'A statement of the handler had ended the transaction before, as DDL does on MySQL: what came before it may be committed.',
    { cause },
  )
}

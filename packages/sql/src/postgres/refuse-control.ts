import { AckordError } from '@ackord/core'

const control = /^\s*(?:begin|start\s+transaction|commit|end|abort|prepare\s+transaction|rollback(?!\s+(?:work\s+|transaction\s+)?to\b))\b/i

/** Throws at a statement that would begin or end the transaction under our hands; savepoints are the handler's own business. */
export function refuseControl(sql: unknown): void {
  if (typeof sql !== 'string' || !control.test(sql)) return
  throw new AckordError(
    'ACKORD_TRANSACTION_REQUIRED',
    'A statement would begin or end the transaction that the middleware owns. Throw to roll it back; use SAVEPOINT for a part of it.',
  )
}

import type { Logger } from '@ackord/core'
import type { Claim, ClaimedRecord, Outcome } from '@ackord/outbox'
import type { Row } from './driver.ts'
import { readMessage } from './outbox-message.ts'

/** What a claimed row is to the relay; `unreadable`: nothing, and it is to be parked. */
export type Claimed = { readonly record: ClaimedRecord } | { readonly unreadable: Outcome }

/** `attempts` with this one. */
export function readClaimed(row: Row, claim: Claim, attempts: number, logger: Logger): Claimed {
  const { id, token } = claim
  const { message, problem } = readMessage(row)
  if (problem === undefined) {
    return { record: { id, token, destination: String(row['destination']), message, attempts, createdAt: Number(row['created_at']) } }
  }
  logger.error({ id: row['id'], seq: id }, `An outbox record is parked, because it cannot be read: ${problem}`)
  return { unreadable: { id, token, result: 'parked', error: problem } }
}

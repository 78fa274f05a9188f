import { AckordError } from '@ackord/core'
import { messageOf } from '@ackord/core/internal'
import { isDenied, isMissing } from '../aws-errors.ts'

/** Whether a failure at the start ends the source. Later on a missing queue may come back, and credentials may be renewed. */
export function endsSource(error: unknown): boolean {
  return isMissing(error) || isDenied(error)
}

export function openingFailed(queue: string, cause: unknown): AckordError {
  return new AckordError('ACKORD_SOURCE_FAILED', `Queue '${queue}' cannot be read: ${advice(cause)}`, { cause })
}

function advice(cause: unknown): string {
  if (isMissing(cause)) return 'it does not exist in this account and region. Create it, or correct the name, the region or the endpoint.'
  if (isDenied(cause)) {
    return 'AWS did not allow it. Check the credentials, and grant sqs:GetQueueUrl, sqs:ReceiveMessage, sqs:DeleteMessage and sqs:ChangeMessageVisibility, and kms:Decrypt if the queue is encrypted with your key.'
  }
  return `${cause instanceof Error ? messageOf(cause) : String(cause)}.`
}

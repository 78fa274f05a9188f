import type { PublishFailure } from '@ackord/core'
import { destinationFailure, permanentFailure, recordFailure } from '@ackord/core/broker'
import { isDenied, isEntryDenied, isEntryFault, isMissing } from '../aws-errors.ts'
import type { AwsBatchFailure } from '../client.ts'

/** The result of messages whose request failed. They may be stored, unless AWS refused the request. `target` is such as `queue 'orders'`. */
export function requestFailed(target: string, cause: unknown): PublishFailure {
  if (isMissing(cause)) {
    return destinationFailure(`The ${target} does not exist in this account and region. Create it, or correct the destination.`, cause)
  }
  if (isDenied(cause)) {
    return destinationFailure(`AWS did not allow a message to ${target}; the cause says why. Check credentials, policy and key.`, cause)
  }
  return destinationFailure(
    `AWS did not confirm a message to ${target}: there was no answer, or it reported an error. It may be stored.`,
    cause,
  )
}

/** The result of a message that AWS refused while it answered for the batch. */
export function entryFailed(target: string, failure: AwsBatchFailure): PublishFailure {
  const { Code: code = 'unknown', Message: text = '', SenderFault: senderFault = false } = failure
  const said = `AWS refused a message to ${target}: ${code}${text === '' ? '' : `, ${text}`}`
  const cause = Object.assign(new Error(text), { name: code })
  if (isEntryDenied(code)) return recordFailure(`${said}.`, cause)
  return isEntryFault(code, senderFault) ? permanentFailure(`${said}. ${advice}`, cause) : destinationFailure(`${said}.`, cause)
}

/** AWS refused the request because of the only message in it. */
export function contentFailed(target: string, cause: unknown): PublishFailure {
  return permanentFailure(`AWS refused a message to ${target}; the cause says why. ${advice}`, cause)
}

const advice =
  'If it is too large, store its data elsewhere: claimCheck() of @ackord/core/payload does that, with s3Objects() of @ackord/aws.'

export function tooLarge(target: string, size: number, limit: number): PublishFailure {
  return permanentFailure(
    `A message to ${target} is too large. It has ${size} bytes with its attributes, and the limit is ${limit}. Store its data elsewhere: claimCheck() of @ackord/core/payload does that, with s3Objects() of @ackord/aws.`,
  )
}

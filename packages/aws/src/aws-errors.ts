import { causesOf } from '@ackord/core/internal'

/** The code of an error of AWS, such as `AccessDenied`; the name of any other error. The SDK has it as the error's name. */
export function codeOf(error: unknown): string {
  return error instanceof Error ? error.name : ''
}

function hasCode(error: unknown, pattern: RegExp): boolean {
  return [...causesOf(error)].some((cause) => pattern.test(codeOf(cause)))
}

/** The queue, topic, bus or bucket does not exist, or not in this region and account. */
export function isMissing(error: unknown): boolean {
  return hasCode(
    error,
    /^(QueueDoesNotExist|AWS\.SimpleQueueService\.NonExistentQueue|NotFound(Exception)?|ResourceNotFoundException|NoSuchBucket)$/,
  )
}

/** The credentials are missing, wrong or expired, or do not allow the operation. */
export function isDenied(error: unknown): boolean {
  return hasCode(error, deniedCodes)
}

const deniedCodes =
  /^(AccessDenied(Exception)?|AuthorizationError(Exception)?|NotAuthorized(Exception)?|InvalidClientTokenId|InvalidAccessKeyId|UnrecognizedClientException|SignatureDoesNotMatch|InvalidSignature(Exception)?|IncompleteSignature(Exception)?|MissingAuthenticationToken(Exception)?|ExpiredToken(Exception)?|CredentialsProviderError|TokenProviderError|InvalidSecurity|OptInRequired|Kms(?!Throttl)\w+|KMS\.?(?!\.?Throttl)\w+)$/

/** AWS refuses the content of the request: a message is too large or has a character that is not allowed. A batch fails as a whole then. */
export function isContentFault(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  // A wrong ARN is a mistake in the destination.
  if (/\bTopicArn\b|\bTopic ?Name\b|\bEventBusName\b|\beventBusName\b|\bQueueUrl\b/.test(error.message)) return false
  return contentCodes.test(codeOf(error)) || statusOf(error) === 413
}

const contentCodes =
  /^(AWS\.SimpleQueueService\.)?(BatchRequestTooLong(Exception)?|InvalidMessageContents|InvalidParameterValue(Exception)?|InvalidParameter(Exception)?|ParameterValueInvalid|InvalidAttributeValue|ValidationException|ValidationError|ValidationErrorException|RequestEntityTooLarge|RequestTooLarge)$/

/** Of an entry in a batch: whether AWS does not allow this source or type of an event on the event bus. Other events may be allowed. */
export function isEntryDenied(code: string): boolean {
  return /^NotAuthorizedFor\w+$/.test(code)
}

/** Of an entry in a batch: whether the entry itself is at fault, so that it would fail again. */
export function isEntryFault(code: string, senderFault: boolean): boolean {
  if (deniedCodes.test(code) || /throttl|limit|quota|internal|unavailable|timeout/i.test(code)) return false
  return senderFault
}

function statusOf(error: Error): unknown {
  const metadata: unknown = '$metadata' in error ? error.$metadata : undefined
  return typeof metadata === 'object' && metadata !== null && 'httpStatusCode' in metadata ? metadata.httpStatusCode : undefined
}

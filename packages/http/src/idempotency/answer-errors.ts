import { AckordError } from '@ackord/core'

export function answerTooLarge(maxAnswerSize: number): AckordError {
  const text = `The answer to a request with an idempotency key has more than ${maxAnswerSize} bytes, the option \`maxAnswerSize\`. Everything was rolled back.`
  return new AckordError('ACKORD_INVALID_OUTPUT', text, { retryable: false })
}

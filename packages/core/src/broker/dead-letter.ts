import { abortable } from '../async/abort.ts'
import { AckordError } from '../errors.ts'
import type { RawMessage } from '../message/message.ts'
import { isRetryable } from '../message/message-state.ts'
import { redactDestination } from '../ports/redact.ts'
import type { Runtime } from '../ports/runtime.ts'
import { deadLetterForms } from './dead-letter-forms.ts'
import { checkResults, type Publisher } from './publisher.ts'

/** The destination of messages that will not be handled. */
export interface DeadLetter {
  readonly publisher: Publisher
  readonly destination: string
}

/**
 * Sends the message to the dead letter and waits for the confirmation; rejects if there is none in time. A form that the dead letter refuses for good is
 * followed by the next one of `deadLetterForms()`. An error that is not retryable says that it has refused all of them.
 */
export async function sendDeadLetter(
  deadLetter: DeadLetter,
  message: RawMessage,
  error: unknown,
  options: { readonly runtime: Runtime; readonly timeout: number },
): Promise<void> {
  const { runtime, timeout } = options
  const { publisher, destination } = deadLetter
  const controller = new AbortController()
  const timer = runtime.setTimeout(() => controller.abort(tooLong(deadLetter, timeout)), timeout)
  try {
    const { signal } = controller
    let refusal: unknown
    for (const letter of deadLetterForms(message, error, runtime)) {
      try {
        checkResults(await abortable(publisher.publish(destination, [letter], { signal }), signal), 1, destination)
        return
      } catch (failure) {
        if (isRetryable(failure)) throw failure
        // The first refusal says the most about the message.
        refusal ??= failure
      }
    }
    throw refused(destination, refusal)
  } finally {
    timer.cancel()
  }
}

function tooLong({ destination }: DeadLetter, timeout: number): AckordError {
  return new AckordError(
    'ACKORD_PUBLISH_FAILED',
    `The dead letter '${redactDestination(destination)}' did not confirm within ${timeout} ms.`,
  )
}

function refused(destination: string, cause: unknown): AckordError {
  const text = `The dead letter '${redactDestination(destination)}' refused the message for good, and every smaller form of it as well. Check what the destination accepts.`
  return new AckordError('ACKORD_PUBLISH_FAILED', text, { retryable: false, cause })
}

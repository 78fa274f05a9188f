import { abortable } from './abortable.ts'
import { AckordError, isAckordError, toError } from './errors.ts'
import { Message, type RawMessage } from './message.ts'
import { checkResults } from './publish-results.ts'
import type { Publisher } from './publisher.ts'
import type { Runtime } from './runtime.ts'

/** Where messages go that nobody will handle. */
export interface DeadLetter {
  readonly publisher: Publisher
  readonly destination: string
}

/**
 * Sends the message to the dead letter and waits for the confirmation; rejects if there is none in time.
 * The letter has the message's own bytes, id and attributes, and says why and when: `deadletterreason`, `deadlettercode`, `deadlettertime`.
 */
export async function sendDeadLetter(
  deadLetter: DeadLetter,
  message: RawMessage,
  error: unknown,
  options: { readonly runtime: Runtime; readonly timeout: number },
): Promise<void> {
  const { runtime, timeout } = options
  const letter = deadLetterOf(message, error, runtime)
  const controller = new AbortController()
  const timer = runtime.setTimeout(() => controller.abort(tooLong(deadLetter, timeout)), timeout)
  try {
    const { signal } = controller
    checkResults(
      await abortable(deadLetter.publisher.publish(deadLetter.destination, [letter], { signal }), signal),
      1,
      deadLetter.destination,
    )
  } finally {
    timer.cancel()
  }
}

/** The letter alone, for those who send many at once. */
export function deadLetterOf(message: RawMessage, error: unknown, runtime: Runtime): RawMessage {
  const reason = toError(error)
  return new Message(message.data, {
    ...message.attributes,
    deadletterreason: reasonText(reason).slice(0, 1000),
    ...(isAckordError(reason) ? { deadlettercode: reason.code } : {}),
    deadlettertime: new Date(runtime.now()).toISOString(),
  })
}

function tooLong({ destination }: DeadLetter, timeout: number): AckordError {
  return new AckordError('ACKORD_PUBLISH_FAILED', `The dead letter '${destination}' did not confirm within ${timeout} ms.`)
}

/** With its causes: "gave up after ten attempts" alone helps nobody. */
function reasonText(error: Error): string {
  const texts = [error.message]
  for (let cause = error.cause; cause instanceof Error && texts.length < 4; cause = cause.cause) texts.push(cause.message)
  return texts.join(' Cause: ')
}

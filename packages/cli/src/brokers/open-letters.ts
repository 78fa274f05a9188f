import { isAckordError } from '@ackord/core'
import type { DeadLetterQueue, DeadLetters } from '@ackord/core/broker'
import { CommandError, exitCode, usageError } from '../output/errors.ts'
import type { Broker, LettersOptions } from './broker.ts'

/** The letters of a dead-letter destination, which need not exist yet. */
export async function lettersOf(broker: Broker, destination: string, options: LettersOptions): Promise<DeadLetters> {
  const letters = await broker.deadLetters?.(destination, options)
  if (letters === undefined)
    throw usageError(`Dead letters at ${broker.address} cannot be listed.`, 'Read them with a consumer of that broker.')
  return letters
}

/** Opens a dead-letter destination. The caller closes it, before the broker. */
export async function openLetters(letters: DeadLetters): Promise<DeadLetterQueue> {
  try {
    return await letters.open()
  } catch (error) {
    if (!isAckordError(error, 'ACKORD_SOURCE_FAILED')) throw error
    throw new CommandError(error.message, {
      exitCode: exitCode.failed,
      hint: 'Check --from, or --dead-letters of the dashboard.',
      cause: error,
    })
  }
}

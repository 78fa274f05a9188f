import { isAckordError } from '@ackord/core'
import type { DeadLetterQueue } from '@ackord/core/broker'
import { CommandError, exitCode, usageError } from '../output/errors.ts'
import type { Broker } from './open-broker.ts'

/** Opens a dead-letter destination. `group`: whose offset marks the letters that are done; Kafka only. The caller closes it, before the broker. */
export async function openLetters(broker: Broker, destination: string, group: string): Promise<DeadLetterQueue> {
  const letters = await broker.deadLetters?.(destination, group)
  if (letters === undefined)
    throw usageError(`Dead letters at ${broker.address} cannot be listed.`, 'Read them with a consumer of that broker.')
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

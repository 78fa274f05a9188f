import { AckordError, deterministicIds, InvalidOptionError, type RawMessage } from '@ackord/core'
import { missingAttributes } from '@ackord/core/broker'
import { describeMessage } from '@ackord/core/internal'
import { codecMarkOf } from '../store/administration.ts'

/** The message as it is published again. Throws if that is not possible. */
export function replayedMessage(message: RawMessage, newIds: string | undefined): RawMessage {
  const missing = missingAttributes(message.attributes)
  if (missing.length > 0)
    throw new AckordError('ACKORD_INVALID_MESSAGE', `The record cannot be read: its message has no ${missing.join(', ')}.`, {
      retryable: false,
    })
  if (newIds === undefined) return message.withAttributes({ replayed: true })
  checkNotEncoded(message)
  const { id = '', source = '', type = '' } = message.attributes
  return message.withAttributes({ id: deterministicIds(`replay ${newIds}`, source, id)(type), replayed: true, replayedid: id })
}

/** What a codec has encoded belongs to the id: its reader would reject the message with another one. */
function checkNotEncoded(message: RawMessage): void {
  const mark = codecMarkOf(message)
  if (mark === undefined) return
  throw new InvalidOptionError(
    'newIds',
    `cannot be used for ${describeMessage(message)}: a codec has encoded its data together with its id (attribute '${mark}'), and its reader would reject it. Replay it with its own id.`,
  )
}

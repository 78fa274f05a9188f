import type { RawMessage } from '@ackord/core'
import type { SqsMessage } from './read-message.ts'

/** A message that was received here and is not settled. */
export interface HeldMessage {
  readonly session: ReceivingSession
  readonly native: SqsMessage
  /** The group of a FIFO queue. */
  readonly group: string | undefined
  /** Of the latest delivery. */
  handle: string
  /** The milliseconds since the latest delivery was requested. */
  age: () => number
  /** Whether it was handed out, so that its handler settles it. */
  yielded: boolean
  /** Whether its verdict is on its way to SQS. */
  settling: boolean
  /** Why its visibility timeout could not be extended: SQS has delivered it again, or will. */
  lost: unknown
  /** Settles when SQS has answered the extension that is under way. */
  extending: Promise<void> | undefined
}

/** The session that received a message, and reads it when its turn has come. */
interface ReceivingSession {
  messageOf(held: HeldMessage): RawMessage | undefined
}

// Of SQS, in seconds.
const maxVisibility = 43_200

/** The seconds of a visibility timeout of so many milliseconds, within the twelve hours since the message was received; 0 if they are over. */
export function visibilityOf(held: HeldMessage, timeout: number): number {
  const left = maxVisibility - Math.ceil(held.age() / 1000) - 1
  return Math.max(0, Math.min(Math.ceil(timeout / 1000), left))
}

import { AckordError, type Timer } from '@ackord/core'
import type { ReadMessage } from './read-message.ts'
import type { StreamDelivery } from './stream-message.ts'

/** A message that was delivered here and has no verdict. */
export interface HeldMessage {
  /** The last delivery of it. */
  delivery: StreamDelivery
  /** This one included. It grows by itself where a nacked message is kept here. */
  deliveries: number
  /** Whether it was handed out, so that its holder settles it. */
  yielded: boolean
  /** Nacked with a delay that is not over, and kept here. */
  hold: Timer | undefined
  /** What it holds, once that was looked at; an error if it cannot be read. */
  content: ReadMessage | { readonly error: unknown } | undefined
  /** Why it cannot be settled here any more. */
  loss: 'disposed' | undefined
}

export function lossError({ delivery }: HeldMessage, cause?: unknown): AckordError {
  const text = `There was no connection to NATS to settle message ${delivery.sequence} of stream '${delivery.stream}'; it is delivered again, and the late verdict has no effect.`
  return new AckordError('ACKORD_LEASE_LOST', text, cause === undefined ? {} : { cause })
}

export function disposedError({ delivery }: HeldMessage): AckordError {
  const text = `The source was disposed before message ${delivery.sequence} of stream '${delivery.stream}' was settled; it is delivered again, and the late verdict has no effect. Settle what was yielded before disposing the source.`
  return new AckordError('ACKORD_SHUTDOWN', text)
}

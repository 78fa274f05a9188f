import { AckordError } from '@ackord/core'
import type { Shard } from './shard.ts'
import type { StreamEntry } from './stream-entry.ts'

/** One delivery of an entry, until it is settled or lost. */
export interface HeldEntry extends StreamEntry {
  readonly shard: Shard
  /** This one included. */
  readonly deliveries: number
  /** Whether it was handed out, so that its holder settles it. */
  yielded: boolean
  /** Why it cannot be settled here any more. */
  loss: Loss | undefined
}

export type Loss = 'taken' | 'disposed'

export function lossError({ id, stream, loss }: HeldEntry): AckordError {
  if (loss === 'disposed') {
    const text = `The source was disposed before entry ${id} of stream '${stream}' was settled; it is delivered again, and the late verdict has no effect. Settle what was yielded before disposing the source.`
    return new AckordError('ACKORD_SHUTDOWN', text)
  }
  const text = `Entry ${id} of stream '${stream}' was taken over by another consumer, or its group is gone; the late verdict has no effect. If handlers stall, give the source a longer claimIdle or lease.`
  return new AckordError('ACKORD_LEASE_LOST', text)
}

/** The server refused, or there was no answer. */
export function unsettled({ id, stream }: HeldEntry, cause: unknown): AckordError {
  const text = `Redis did not take the verdict on entry ${id} of stream '${stream}'; unless it was carried out all the same, the entry is delivered again.`
  return new AckordError('ACKORD_LEASE_LOST', text, { cause })
}

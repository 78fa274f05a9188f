import { createHash } from 'node:crypto'
import type { RawMessage, Runtime } from '@ackord/core'

/** Group and deduplication id of a message for a FIFO queue or topic. */
export interface FifoIds {
  readonly group: string
  readonly deduplication: string
}

/** Whether a queue or topic keeps order per group: AWS requires the suffix. */
export function isFifo(name: string): boolean {
  return name.endsWith('.fifo')
}

/**
 * The group is the `partitionkey`; a message without one is a group of its own, so that it waits for no other. The deduplication id is a digest of source and id: AWS
 * drops a message with the same one for five minutes. A message without an id is never dropped, nor is one with `deduplicate: false`.
 */
export function fifoIds(message: RawMessage, options: { readonly deduplicate: boolean; readonly runtime: Runtime }): FifoIds {
  const { partitionKey } = message
  const { deduplicate, runtime } = options
  const repeated = deduplicate ? repeatedId(message) : undefined
  const deduplication = repeated === undefined ? runtime.uuid() : digest(JSON.stringify(repeated))
  return { group: partitionKey === undefined || partitionKey === '' ? deduplication : groupOf(partitionKey), deduplication }
}

/** The values that a repeat of the message has in common with it. A message may be rejected again within minutes, after a replay: the time makes its second dead letter another message. */
function repeatedId({ id, source = '', attributes }: RawMessage): readonly unknown[] | undefined {
  const { deadletterform: form, deadlettertime: rejectedAt } = attributes
  if (id === undefined || (form !== undefined && rejectedAt === undefined)) return undefined
  return rejectedAt === undefined ? [source, id] : [source, id, rejectedAt]
}

/** A key with other characters than AWS allows, or with too many, becomes its digest. */
function groupOf(key: string): string {
  return allowed.test(key) ? key : digest(key)
}

// Letters, digits and punctuation, no spaces.
const allowed = /^[!-~]{1,128}$/

/** 64 characters; AWS allows 128. */
function digest(text: string): string {
  return createHash('sha256').update(text.toWellFormed()).digest('hex')
}

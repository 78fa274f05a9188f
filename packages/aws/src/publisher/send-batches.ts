import type { PublishFailure, PublishResult } from '@ackord/core'
import { heldBackFailure, notTriedFailure, type Outgoing } from '@ackord/core/broker'
import { isContentFault } from '../aws-errors.ts'
import type { AwsBatchFailure } from '../client.ts'
import { contentFailed, entryFailed, requestFailed } from './publish-failures.ts'

/** A message that is sent in a batch. */
export interface BatchItem {
  /** In bytes, as AWS counts. */
  readonly size: number
  /** Messages of a group are stored in their order. Without one, order does not matter. */
  readonly group: string | undefined
}

export interface BatchOptions<Item> {
  /** The destination in error messages, such as `queue 'orders'`. */
  readonly target: string
  /** The most bytes of a batch. */
  readonly maxSize: number
  /** Whether a batch has at most one message of a group. AWS may refuse one entry and accept the next one. */
  readonly onePerGroup: boolean
  readonly signal: AbortSignal
  /** Sends a batch. Returns the failures by position; `undefined` for an accepted entry. */
  send(items: readonly Item[]): Promise<readonly (AwsBatchFailure | undefined)[]>
}

/** The most entries of a batch, of SQS, SNS and EventBridge alike. */
const maxEntries = 10

/**
 * Sends the messages in batches, one after the other, and settles each. If a message fails and may be tried again, later messages of its group are not sent. If the
 * destination fails, nothing more is sent. A batch that AWS refuses because of its content is sent one by one, so that only the message at fault fails. Never rejects.
 */
export async function sendBatches<Item extends BatchItem>(messages: readonly Outgoing<Item>[], options: BatchOptions<Item>): Promise<void> {
  const { target, signal } = options
  const failedGroups = new Map<string, PublishFailure>()
  const batches = batchesOf(messages, options)
  for (let batch = batches.shift(); batch !== undefined && !signal.aborted; batch = batches.shift()) {
    const tried = batch.filter((message) => {
      const earlier = failedGroups.get(message.item.group ?? '')
      if (message.item.group === undefined || earlier === undefined) return true
      message.settle(heldBackFailure(target, earlier))
      return false
    })
    if (tried.length === 0) continue
    const answer = await answerOf(tried, options)
    if (answer === 'content') {
      batches.unshift(...tried.map((message) => [message]))
      continue
    }
    for (const [index, message] of tried.entries()) {
      const result = answer[index] ?? ok
      message.settle(result)
      const isPassing = !result.ok && result.permanent !== true
      if (isPassing && message.item.group !== undefined) failedGroups.set(message.item.group, result)
    }
    const fault = answer.find((result) => !result.ok && result.scope === 'destination')
    if (fault === undefined || fault.ok) continue
    for (const message of batches.flat()) message.settle(notTriedFailure(target, fault))
    return
  }
}

const ok: PublishResult = { ok: true }

/** The results by position, or `content` if the batch must be sent one by one. */
async function answerOf<Item extends BatchItem>(
  messages: readonly Outgoing<Item>[],
  { target, send }: BatchOptions<Item>,
): Promise<readonly PublishResult[] | 'content'> {
  try {
    const failures = await send(messages.map(({ item }) => item))
    return messages.map((_, index) => {
      const failure = failures[index]
      return failure === undefined ? ok : entryFailed(target, failure)
    })
  } catch (error) {
    if (!isContentFault(error)) return messages.map(() => requestFailed(target, error))
    return messages.length > 1 ? 'content' : [contentFailed(target, error)]
  }
}

/** Batches within the limits. A message is never in an earlier batch than the message of its group before it. */
function batchesOf<Item extends BatchItem>(
  messages: readonly Outgoing<Item>[],
  { maxSize, onePerGroup }: BatchOptions<Item>,
): Outgoing<Item>[][] {
  const batches: { readonly entries: Outgoing<Item>[]; size: number }[] = []
  // The first batch that has room. Without groups only the last one is looked at, which keeps the order of the call.
  let first = 0
  const nextOfGroup = new Map<string, number>()
  for (const message of messages) {
    const { size, group } = message.item
    const isAlone = onePerGroup && group !== undefined
    let index = isAlone ? Math.max(first, nextOfGroup.get(group) ?? 0) : Math.max(0, batches.length - 1)
    for (let batch = batches[index]; batch !== undefined; batch = batches[index]) {
      if (batch.entries.length < maxEntries && batch.size + size <= maxSize) break
      index += 1
    }
    const batch = batches[index]
    if (batch === undefined) batches.push({ entries: [message], size })
    else {
      batch.entries.push(message)
      batch.size += size
    }
    if (isAlone) nextOfGroup.set(group, index + 1)
    while ((batches[first]?.entries.length ?? 0) === maxEntries) first += 1
  }
  return batches.map(({ entries }) => entries)
}

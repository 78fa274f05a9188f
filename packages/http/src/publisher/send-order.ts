import type { PublishFailure, PublishResult } from '@ackord/core'
import { heldBackFailure, notTriedFailure, type Outgoing } from '@ackord/core/broker'
import type { EventRequest } from './send-request.ts'

/**
 * Sends each message as one request, up to `concurrency` at once, and settles it. Messages with the same URL and key are sent one after the other. Once a URL has failed
 * because of the destination, nothing more is sent there. Never rejects, if `send` does not.
 */
export async function sendInOrder(
  messages: readonly Outgoing<EventRequest>[],
  concurrency: number,
  send: (item: EventRequest) => Promise<PublishResult>,
): Promise<void> {
  const sequences = sequencesOf(messages)
  const faults = new Map<string, PublishFailure>()
  const work = async () => {
    for (let sequence = sequences.shift(); sequence !== undefined; sequence = sequences.shift()) {
      let earlier: PublishFailure | undefined
      for (const message of sequence) {
        const { url, shown } = message.item.endpoint
        const fault = faults.get(url)
        if (fault !== undefined) message.settle(notTriedFailure(shown, fault))
        else if (earlier !== undefined) message.settle(heldBackFailure(shown, earlier))
        else {
          const result = await send(message.item)
          message.settle(result)
          if (result.ok) continue
          if (result.scope === 'destination') faults.set(url, result)
          // A message that is never accepted does not hold back the others.
          else if (result.permanent !== true) earlier = result
        }
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, sequences.length) }, work))
}

/** Messages with the same URL and key are one sequence; a message without a key is a sequence of its own. */
function sequencesOf(messages: readonly Outgoing<EventRequest>[]): Outgoing<EventRequest>[][] {
  const sequences: Outgoing<EventRequest>[][] = []
  const byKey = new Map<string, Outgoing<EventRequest>[]>()
  for (const message of messages) {
    const { endpoint, key } = message.item
    const name = key === undefined ? undefined : `${endpoint.url} ${key}`
    const sequence = name === undefined ? undefined : byKey.get(name)
    if (sequence !== undefined) {
      sequence.push(message)
      continue
    }
    const opened = [message]
    sequences.push(opened)
    if (name !== undefined) byKey.set(name, opened)
  }
  return sequences
}

/**
 * Sends the messages as one request, and settles each. A batch that fails, and not because of the destination, is halved until the message at fault is
 * alone, so that the others do not fail with it, whether it is refused for good or only for now. If all of n messages fail, that is up to 2n − 1
 * requests. Never rejects, if `send` does not.
 */
export async function sendBatch(
  messages: readonly Outgoing<EventRequest>[],
  send: (items: readonly EventRequest[]) => Promise<PublishResult>,
): Promise<void> {
  const parts: (readonly Outgoing<EventRequest>[])[] = [messages]
  const failedKeys = new Map<string, PublishFailure>()
  let fault: PublishFailure | undefined
  for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
    const tried: Outgoing<EventRequest>[] = []
    for (const message of part) {
      const { endpoint, key } = message.item
      const earlier = key === undefined ? undefined : failedKeys.get(key)
      if (fault !== undefined) message.settle(notTriedFailure(endpoint.shown, fault))
      else if (earlier !== undefined) message.settle(heldBackFailure(endpoint.shown, earlier))
      else tried.push(message)
    }
    if (tried.length === 0) continue
    const result = await send(tried.map(({ item }) => item))
    if (!result.ok && result.scope !== 'destination' && tried.length > 1) {
      const middle = Math.ceil(tried.length / 2)
      parts.unshift(tried.slice(0, middle), tried.slice(middle))
      continue
    }
    for (const message of tried) message.settle(result)
    if (result.ok || result.permanent === true) continue
    if (result.scope === 'destination') fault = result
    else for (const { item } of tried) if (item.key !== undefined) failedKeys.set(item.key, result)
  }
}

import { abortable } from './abortable.ts'
import type { RawMessage } from './message.ts'
import { checkResults } from './publish-results.ts'
import type { Publisher } from './publisher.ts'

/** Publishes the messages and rejects with `ACKORD_PUBLISH_FAILED` unless the broker has confirmed every one: no result can be forgotten. */
export async function publishAll(
  publisher: Publisher,
  destination: string,
  messages: readonly RawMessage[],
  options: { readonly signal?: AbortSignal | undefined } = {},
): Promise<void> {
  const { signal = new AbortController().signal } = options
  checkResults(await abortable(publisher.publish(destination, messages, { signal }), signal), messages.length, destination)
}

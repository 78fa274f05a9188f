import { AckordError } from '@ackord/core'
import type { KafkaFault } from './port.ts'

/**
 * Whether an error ends the source. At first a missing topic does, because it is most likely a mistake in the set-up; later on it may be made
 * anew. What we are not allowed to do is not tried again at any time.
 */
export function endsSource(fault: KafkaFault, options: { readonly before: boolean }): boolean {
  return fault === 'access' || (fault === 'topic' && !options.before)
}

export function openingFailed(topics: readonly string[], fault: KafkaFault, cause: unknown): AckordError {
  const names = topics.map((topic) => `'${topic}'`).join(', ')
  const advice =
    fault === 'topic'
      ? 'a topic does not exist. Create it.'
      : 'the user is not allowed to, or could not log in. Check its name, password and permissions.'
  return new AckordError('ACKORD_SOURCE_FAILED', `${names} cannot be consumed: ${advice}`, { cause })
}

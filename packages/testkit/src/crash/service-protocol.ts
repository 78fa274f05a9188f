/** What is said between the kit and a service in its own process. */

/** Names the point and the hit, as in `relay.published 2`. */
export const killVariable = 'ACKORD_CRASH_AT'

/** To the service. */
export interface Question {
  readonly ask: 'idle'
}

/** From the service. */
export type Answer = { readonly started: true } | { readonly idle: boolean }

/** The last words of a service that kills itself; written in one go, or the kill would be faster. */
export function lastWords(kill: string): string {
  return `killed at ${kill}\n`
}

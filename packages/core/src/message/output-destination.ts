import { type ContextKey, contextKey } from './context.ts'

/** On an output: where it is published, whatever destination is configured for other outputs. Used for messages that a handler sends to its own consumer. */
export const outputDestinationKey: ContextKey<string> = contextKey('ackord.outputDestination')

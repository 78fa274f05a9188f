import type { DeadLetter, MemorySourceOptions, PublishResult, RawMessage } from '@ackord/core'

/** What a broken source can do with the messages that it has handed out. */
interface HeldMessages {
  /** Those that are not settled, in the order in which they were handed out. */
  readonly held: ReadonlySet<RawMessage>
  /** Puts a copy of the message at the end of its topic. */
  append(message: RawMessage): Promise<unknown>
}

/** Every promise of sources and publishers as a rule of its own, so that a mutant can break exactly one. */
export interface BrokerRules {
  /** What is stored of the messages of a call. */
  readonly store: (messages: readonly RawMessage[]) => readonly RawMessage[]
  readonly destination: (destination: string) => string
  readonly results: (results: readonly PublishResult[], messages: readonly RawMessage[]) => readonly PublishResult[]
  readonly refusesMissing: boolean
  readonly isTooLarge: (message: RawMessage, limit: number) => boolean
  /** What tells a message from others, for those that are published again. */
  readonly identity: (message: RawMessage) => string
  readonly settlesPublished: boolean
  /** What becomes of a call that is given up before or on its way. */
  readonly heedsAbort: 'before and on the way' | 'on the way' | 'confirms' | 'blames messages'
  readonly publisherWaits: boolean

  readonly group: (group: string, source: number) => string
  readonly options: (options: MemorySourceOptions) => MemorySourceOptions
  readonly deadLetter: (deadLetter: DeadLetter | undefined) => DeadLetter | 'discard' | undefined
  readonly deliver: (message: RawMessage) => RawMessage
  readonly deliveryCount: (count: number | undefined) => number | undefined
  readonly ack: (message: RawMessage, messages: HeldMessages) => Promise<unknown>
  readonly nack: (message: RawMessage, delay: number | undefined) => Promise<unknown>
  readonly heedsSignal: boolean
  /** How many messages are taken ahead of those that are asked for, and kept when the loop is left. */
  readonly buffers: number
  readonly leaveDisposes: boolean
  readonly disposeEndsIterations: boolean
  readonly disposesTwice: boolean
  /** What happens to what was yielded when its source is disposed, before it goes back. */
  readonly giveBack: (messages: HeldMessages) => Promise<unknown>
  readonly refusesLateVerdicts: boolean
  /** Whether what some group has settled is kept for others. */
  readonly keeps: boolean
  readonly survivesRestart: boolean
}

export const brokerRules: BrokerRules = {
  store: (messages) => messages,
  destination: (destination) => destination,
  results: (results) => results,
  refusesMissing: true,
  isTooLarge: ({ data }, limit) => data.byteLength >= limit,
  identity: ({ source, id }) => JSON.stringify([source, id]),
  settlesPublished: false,
  heedsAbort: 'before and on the way',
  publisherWaits: true,

  group: (group) => group,
  options: (options) => options,
  deadLetter: (deadLetter) => deadLetter,
  deliver: (message) => message,
  deliveryCount: (count) => count,
  ack: (message) => message.ack(),
  nack: (message, delay) => message.nack(undefined, { retryAfter: delay }),
  heedsSignal: true,
  buffers: 0,
  leaveDisposes: false,
  disposeEndsIterations: true,
  disposesTwice: true,
  giveBack: () => Promise.resolve(),
  refusesLateVerdicts: true,
  keeps: true,
  survivesRestart: true,
}

import type { BrokerAddress, DeadLetter, MemorySourceOptions, PublishResult, RawMessage } from '@ackord/core'

/** The messages that a source has delivered, for rules that act on them. */
interface DeliveredMessages {
  /** The messages that are not settled, in the order of their delivery. */
  readonly unsettled: ReadonlySet<RawMessage>
  /** Puts a copy of the message at the end of its topic. */
  append(message: RawMessage): Promise<unknown>
}

/** Every promise of sources and publishers as a rule, so that a mutant can break exactly one. */
export interface BrokerRules {
  readonly address: BrokerAddress
  /** The messages of a call as the broker stores them. */
  readonly store: (messages: readonly RawMessage[]) => readonly RawMessage[]
  readonly destination: (destination: string) => string
  readonly results: (results: readonly PublishResult[], messages: readonly RawMessage[]) => readonly PublishResult[]
  readonly refusesMissing: boolean
  readonly isTooLarge: (message: RawMessage, limit: number) => boolean
  /** Identifies a message, so that one that is published again can be recognised. */
  readonly identity: (message: RawMessage) => string
  readonly settlesPublished: boolean
  /** How a publish reacts to an abort before or while it runs. */
  readonly onAbort: 'before and while publishing' | 'while publishing' | 'confirms' | 'blames messages'
  readonly publisherWaits: boolean

  readonly group: (group: string, source: number) => string
  readonly options: (options: MemorySourceOptions) => MemorySourceOptions
  readonly deadLetter: (deadLetter: DeadLetter | undefined) => DeadLetter | 'discard' | undefined
  readonly deliver: (message: RawMessage) => RawMessage
  readonly deliveryCount: (count: number | undefined) => number | undefined
  readonly ack: (message: RawMessage, messages: DeliveredMessages) => Promise<unknown>
  readonly nack: (message: RawMessage, delay: number | undefined) => Promise<unknown>
  readonly honoursSignal: boolean
  /** How many messages an iteration reads ahead, and keeps when its loop ends. */
  readonly buffers: number
  readonly leaveDisposes: boolean
  readonly disposeEndsIterations: boolean
  readonly disposesTwice: boolean
  /** Called when a source is disposed, before its unsettled messages are redelivered. */
  readonly beforeRedelivery: (messages: DeliveredMessages) => Promise<unknown>
  readonly refusesLateVerdicts: boolean
  /** Whether messages that one group has settled are kept for others. */
  readonly keepsSettled: boolean
  readonly survivesRestart: boolean
}

export const brokerRules: BrokerRules = {
  address: { system: 'memory', serverAddress: 'localhost', serverPort: 5672 },
  store: (messages) => messages,
  destination: (destination) => destination,
  results: (results) => results,
  refusesMissing: true,
  isTooLarge: ({ data }, limit) => data.byteLength >= limit,
  identity: ({ source, id }) => JSON.stringify([source, id]),
  settlesPublished: false,
  onAbort: 'before and while publishing',
  publisherWaits: true,

  group: (group) => group,
  options: (options) => options,
  deadLetter: (deadLetter) => deadLetter,
  deliver: (message) => message,
  deliveryCount: (count) => count,
  ack: (message) => message.ack(),
  nack: (message, delay) => message.nack(undefined, { retryAfter: delay }),
  honoursSignal: true,
  buffers: 0,
  leaveDisposes: false,
  disposeEndsIterations: true,
  disposesTwice: true,
  beforeRedelivery: () => Promise.resolve(),
  refusesLateVerdicts: true,
  keepsSettled: true,
  survivesRestart: true,
}

// For authors of brokers: what a publisher and a source are made of. See "Write your own broker" in the documents.

export { parseAddress } from './broker/broker-address.ts'
export type { HeaderBinding, HeaderCodec } from './broker/cloudevents-headers.ts'
export {
  attributeText,
  bufferOf,
  definedAttributes,
  headerCodec,
  isStructuredContentType,
  percentDecode,
  percentEncode,
  structuredContentType,
} from './broker/cloudevents-headers.ts'
export type { Outgoing, PublisherDriver, SendOptions } from './broker/create-publisher.ts'
export { createPublisher } from './broker/create-publisher.ts'
export type { SourceDriver, SourceSession } from './broker/create-source.ts'
export { createSource } from './broker/create-source.ts'
export type {
  DeadLetter,
  DeadLetterPort,
  DeadLetterPortOptions,
  DeadLetters,
  ReplayPreview,
} from './broker/dead-letters/dead-letter-port.ts'
export { deadLetterPort } from './broker/dead-letters/dead-letter-port.ts'
export type { DeadLetterQueue, DeadLettersOptions, StoredLetter } from './broker/dead-letters/dead-letter-queue.ts'
export type { DrainableRelay, InvocationOptions, SingleMessageHandler } from './broker/invocations.ts'
export type { IterationOwner, SourceIteration } from './broker/iterated-source.ts'
export { IteratedSource } from './broker/iterated-source.ts'
export { KeyQueues } from './broker/key-queues.ts'
export type { PolledSourceDriver } from './broker/polled-source.ts'
export { createPolledSource } from './broker/polled-source.ts'
export {
  abortedFailure,
  destinationFailure,
  heldBackFailure,
  notTriedFailure,
  permanentFailure,
  recordFailure,
  unroutedFailure,
  unwritableFailure,
  wrongDataFailure,
} from './broker/publish-failures.ts'
export type { Pusher } from './broker/pushed-messages.ts'
export { PushedMessages } from './broker/pushed-messages.ts'
export type { Delivery, Receiver, ReceiverOptions } from './broker/receiver.ts'
export { createReceiver } from './broker/receiver.ts'
export type { Connection, FailureState, ReconnectOptions, SourceHealthOptions } from './broker/reconnect.ts'
export { reconnect, SourceHealth } from './broker/reconnect.ts'
export { leaseLostError, rejectUnreadable, sourceDisposedError } from './broker/settlement-errors.ts'
export { readTraceHeaders, writeTraceHeaders } from './broker/trace-headers.ts'
export { checkAttributes, missingAttributes, parseInstant } from './message/attributes.ts'
export { PartPorts } from './ports/part-ports.ts'

// Messages and events
export { defineEvent } from './message/define-event.ts'
export { Message, parseMessage } from './message/message.ts'
export { match } from './message/match.ts'
export { deterministicIds } from './message/output-ids.ts'
export type { EventAttributes, EventDefinition } from './message/define-event.ts'
export type { MessageOptions, RawMessage } from './message/message.ts'
export type { Matcher } from './message/match.ts'
export type { OutputIds } from './message/output-ids.ts'
export type { Attributes, AttributeValue } from './message/attributes.ts'
export type { AckCallbacks, AckState, HandleOneResult, NackOptions, Settlement, Verdict } from './message/acking.ts'

// Marshalers: from data to bytes and back
export { bytesMarshaler, firstAccepting, jsonMarshaler, textMarshaler } from './message/marshaler.ts'
export { marshal, unmarshal } from './message/marshal.ts'
export type { Marshaler } from './message/marshaler.ts'
export type { StandardSchema } from './message/schema.ts'

// Handlers
export { batchHandler } from './handler/batch-handler.ts'
export { commandHandler, eventHandler } from './handler/typed-handler.ts'
export { asIs, dotCase, kebabCase, snakeCase } from './handler/naming.ts'
export type { BatchMessage, BatchSettings } from './handler/batch.ts'
export type { BatchFunction, BatchHandlerOptions, BatchResult } from './handler/batch-handler.ts'
export type { Handler } from './handler/handler.ts'
export type { Naming } from './handler/naming.ts'
export type {
  ClassInput,
  CommandHandlerOptions,
  EventHandlerOptions,
  HandlerFunction,
  HandlerOutputOptions,
  HandlerResult,
  MessageClass,
  TextInput,
} from './handler/typed-handler.ts'

// Router and engine
export { Router } from './router/router.ts'
export { Engine } from './router/engine.ts'
export type { AckStrategy } from './router/ack-strategy.ts'
export type { EngineInput, EngineOptions, EnginePlugin, InputOptions, OutputOptions, PublisherOutputOptions } from './router/engine.ts'
export type { HandlerOptions } from './router/handler-table.ts'
export type { Destination } from './router/publish-outputs.ts'
export type { HandleOneOptions, PipeOptions, RouterHealth, RunOptions } from './router/router.ts'
export type { ErrorDecision, RouterOptions } from './router/router-options.ts'

// Fairness between tenants, and their rates
export { memoryRateLimiter } from './fairness/memory-rate-limiter.ts'
export type { FairnessOptions, Rate } from './fairness/fairness-options.ts'
export type { MemoryRateLimiterOptions } from './fairness/memory-rate-limiter.ts'
export type { RateGrant, RateLimiter, RateRequest } from './fairness/rate-limiter.ts'

// Middleware of your own; the built-in ones are in @ackord/core/middleware
export { compose, middleware } from './middleware/middleware.ts'
export type { Middleware, MiddlewareInfo, MiddlewareRole, Process } from './middleware/middleware.ts'

// The context of a message, and its transaction
export {
  attributesKey,
  beginAttempt,
  contextKey,
  currentContext,
  enter,
  messageKey,
  outside,
  rootContext,
  withDeadline,
  withSignal,
} from './message/context.ts'
export { afterCommit, afterRollback } from './message/transaction-scope.ts'
export type { Context, ContextKey, RootContextOptions } from './message/context.ts'
export type { ScopeCallback, ScopeOutcome } from './message/transaction-scope.ts'

// Sources and publishers; the tools to write one are in @ackord/core/broker
export { MemoryBroker } from './broker/memory/memory-broker.ts'
export { publishAll } from './broker/publisher.ts'
export type { DeadLetter } from './broker/dead-letter.ts'
export type { MemoryBrokerOptions, MemorySourceOptions } from './broker/memory/memory-broker.ts'
export type { MemoryStats } from './broker/memory/memory-topic.ts'
export type { Publisher, PublishFailure, PublishOptions, PublishResult } from './broker/publisher.ts'
export type { BrokerAddress, Closable, Source } from './broker/source.ts'

// Back-off
export { constantBackoff, exponentialBackoff } from './async/backoff.ts'
export type { Backoff, ExponentialBackoffOptions } from './async/backoff.ts'

// Errors
export {
  AckordError,
  errorCodes,
  InvalidOptionError,
  isAckordError,
  RejectError,
  StoreRefusesWritesError,
  TransactionRequiredError,
  toError,
} from './errors.ts'
export type { AckordErrorOptions, ErrorCode } from './errors.ts'

// Clock, logger and metrics
export { consoleLogger, silentLogger } from './ports/observability.ts'
export { idle, sleep, systemRuntime } from './ports/runtime.ts'
export type { MetricLabels, Metrics } from './ports/metrics.ts'
export type { Logger } from './ports/observability.ts'
export type { Part, SharedPorts } from './ports/part-ports.ts'
export type { Runtime, Timer, TimerOptions } from './ports/runtime.ts'

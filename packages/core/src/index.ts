// Messages

export type { Backoff, ExponentialBackoffOptions } from './async/backoff.ts'
export { constantBackoff, exponentialBackoff } from './async/backoff.ts'
export type { DeadLetter } from './broker/dead-letter.ts'
export type { MemoryBrokerOptions, MemorySourceOptions } from './broker/memory/memory-broker.ts'
export { MemoryBroker } from './broker/memory/memory-broker.ts'
export type { MemoryStats } from './broker/memory/memory-topic.ts'
export type { Publisher, PublishFailure, PublishResult } from './broker/publisher.ts'
export { publishAll } from './broker/publisher.ts'
// Sources, publishers, marshalers
export type { Source } from './broker/source.ts'
export type { AckordErrorOptions, ErrorCode } from './errors.ts'
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
export type { Handler } from './handler/handler.ts'
export type { Naming } from './handler/naming.ts'
export { asIs, dotCase, kebabCase, snakeCase } from './handler/naming.ts'
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
// Handlers
export { commandHandler, eventHandler } from './handler/typed-handler.ts'
export type { AckCallbacks, AckState, NackOptions, Settlement, Verdict } from './message/acking.ts'
export type { Attributes, AttributeValue } from './message/attributes.ts'
export { attributeClass, checkAttributes, missingAttributes, parseInstant } from './message/attributes.ts'
export type { Context, ContextKey, RootContextOptions } from './message/context.ts'
// Context and transactions
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
export type { EventAttributes, EventDefinition } from './message/define-event.ts'
export { defineEvent } from './message/define-event.ts'
export { marshal, unmarshal } from './message/marshal.ts'
export type { Marshaler } from './message/marshaler.ts'
export { bytesMarshaler, firstAccepting, jsonMarshaler, textMarshaler } from './message/marshaler.ts'
export type { Matcher } from './message/match.ts'
export { match } from './message/match.ts'
export type { MessageOptions, RawMessage } from './message/message.ts'
export { Message } from './message/message.ts'
export type { OutputIds } from './message/output-ids.ts'
export { deterministicIds, outputIdsKey } from './message/output-ids.ts'
export { parseMessage } from './message/parse-message.ts'
export type { StandardSchema } from './message/schema.ts'
export type { ScopeCallback, ScopeOutcome } from './message/transaction-scope.ts'
export { afterCommit, afterRollback, TransactionScope, transactionScopeKey } from './message/transaction-scope.ts'
export type { ChaosOptions, RandomDelayOptions, RandomFailureOptions } from './middleware/chaos.ts'
// Middleware
export { duplicateMiddleware, randomDelayMiddleware, randomFailureMiddleware } from './middleware/chaos.ts'
export type { CircuitBreakerOptions, CircuitState } from './middleware/circuit-breaker.ts'
export { CircuitBreaker, CircuitOpenError, circuitBreakerMiddleware } from './middleware/circuit-breaker.ts'
export type { CorrelationOptions } from './middleware/correlation.ts'
export { correlationMiddleware } from './middleware/correlation.ts'
export type { DeadLetterOptions } from './middleware/dead-letter.ts'
export { deadLetterMiddleware } from './middleware/dead-letter.ts'
export type { DeadlineOptions } from './middleware/deadline.ts'
export { deadlineMiddleware } from './middleware/deadline.ts'
export type { JsonSchemaError, JsonSchemaOptions, JsonSchemaProblem, JsonSchemaValidator } from './middleware/json-schema.ts'
export { JsonSchemaRegistry, jsonSchemaMiddleware } from './middleware/json-schema.ts'
export type { LoggingOptions } from './middleware/logging.ts'
export { loggingMiddleware } from './middleware/logging.ts'
export type { MetricsOptions } from './middleware/metrics.ts'
export { metricsMiddleware } from './middleware/metrics.ts'
export type { Middleware, MiddlewareInfo, MiddlewareRole, Process } from './middleware/middleware.ts'
export { compose, middleware } from './middleware/middleware.ts'
export { recoverMiddleware } from './middleware/recover.ts'
export type { ErrorKind, RetryOptions, RetryState } from './middleware/retry.ts'
export { RetryExhaustedError, retryExcept, retryMiddleware, retryOn, retryState } from './middleware/retry.ts'
export { subjectMiddleware } from './middleware/subject.ts'
export type { ThrottleOptions } from './middleware/throttle.ts'
export { throttleMiddleware } from './middleware/throttle.ts'
export type { TimeoutOptions } from './middleware/timeout.ts'
export { timeoutMiddleware } from './middleware/timeout.ts'
export type { ValidateOptions } from './middleware/validate.ts'
export { validateMiddleware } from './middleware/validate.ts'
export type { Logger, MetricLabels, Metrics } from './ports/observability.ts'
// Ports and errors
export { consoleLogger, silentLogger } from './ports/observability.ts'
export type { ProbeHook } from './ports/probe.ts'
export { installProbe, probe } from './ports/probe.ts'
export type { Runtime, Timer, TimerOptions } from './ports/runtime.ts'
export { idle, sleep, systemRuntime } from './ports/runtime.ts'
export type { AckStrategy } from './router/ack-strategy.ts'
export type { EngineInput, EngineOptions, EnginePlugin, InputOptions, OutputOptions, PublisherOutputOptions } from './router/engine.ts'
export { Engine } from './router/engine.ts'
export type { HandlerOptions } from './router/handler-table.ts'
export type { Destination } from './router/publish-outputs.ts'
export type { PipeOptions, RouterHealth, RunOptions } from './router/router.ts'
// Router and engine
export { Router } from './router/router.ts'
export type { ErrorDecision, RouterOptions } from './router/router-options.ts'

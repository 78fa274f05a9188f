// Messages
export { Message } from './message.ts'
export { parseMessage } from './parse-message.ts'
export { attributeClass, checkAttributes, missingAttributes, parseInstant } from './attributes.ts'
export type { Attributes, AttributeValue } from './attributes.ts'
export type { AckCallbacks, AckState, NackOptions, Settlement, Verdict } from './acking.ts'
export type { MessageOptions, RawMessage } from './message.ts'

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
} from './context.ts'
export { afterCommit, afterRollback, TransactionScope, transactionScopeKey } from './transaction-scope.ts'
export { deterministicIds, outputIdsKey } from './deterministic-id.ts'
export type { Context, ContextKey, RootContextOptions } from './context.ts'
export type { ScopeOutcome } from './transaction-scope.ts'
export type { OutputIds } from './deterministic-id.ts'

// Router and engine
export { Router } from './router.ts'
export { Engine } from './engine.ts'
export { compose, middleware } from './process.ts'
export type { AckStrategy } from './ack-strategy.ts'
export type { HandlerOptions } from './handler-table.ts'
export type { PipeOptions, RouterHealth, RunOptions } from './router.ts'
export type { ErrorDecision, RouterOptions } from './router-options.ts'
export type { EngineInput, EngineOptions, EnginePlugin, InputOptions, OutputOptions, PublisherOutputOptions } from './engine.ts'
export type { Middleware, MiddlewareInfo, MiddlewareRole, Process } from './process.ts'
export type { Destination } from './publish-outputs.ts'

// Handlers
export { commandHandler } from './command-handler.ts'
export { eventHandler } from './event-handler.ts'
export { defineEvent } from './define-event.ts'
export { asIs, dotCase, kebabCase, snakeCase } from './naming.ts'
export { match } from './match.ts'
export type { CommandHandlerOptions } from './command-handler.ts'
export type { EventHandlerOptions } from './event-handler.ts'
export type { EventAttributes, EventDefinition } from './define-event.ts'
export type { Handler } from './handler.ts'
export type { HandlerFunction, HandlerResult, MessageClass } from './typed-handler.ts'
export type { Matcher } from './match.ts'
export type { Naming } from './naming.ts'
export type { StandardSchema } from './standard-schema.ts'

// Sources, publishers, marshalers
export { createReceiver } from './receiver.ts'
export { MemoryBroker } from './memory/memory-broker.ts'
export { bytesMarshaler, firstAccepting, jsonMarshaler, textMarshaler } from './marshaler.ts'
export { marshal, unmarshal } from './stages.ts'
export type { DeadLetter } from './dead-letter.ts'
export type { Delivery, ReceiverOptions } from './receiver.ts'
export type { MemoryBrokerOptions, MemorySourceOptions } from './memory/memory-broker.ts'
export type { MemoryStats } from './memory/memory-stats.ts'
export type { Marshaler } from './marshaler.ts'
export type { Publisher, PublishFailure, PublishResult } from './publisher.ts'
export type { Source } from './source.ts'

// Middleware
export { duplicateMiddleware, randomDelayMiddleware, randomFailureMiddleware } from './middleware/chaos.ts'
export { CircuitOpenError, circuitBreakerMiddleware } from './middleware/circuit-breaker.ts'
export { correlationMiddleware } from './middleware/correlation.ts'
export { deadLetterMiddleware } from './middleware/dead-letter.ts'
export { deadlineMiddleware } from './middleware/deadline.ts'
export { JsonSchemaRegistry, jsonSchemaMiddleware } from './middleware/json-schema.ts'
export { loggingMiddleware } from './middleware/logging.ts'
export { metricsMiddleware } from './middleware/metrics.ts'
export { recoverMiddleware } from './middleware/recover.ts'
export { RetryExhaustedError, retryMiddleware, retryState } from './middleware/retry.ts'
export { retryExcept, retryOn } from './middleware/retry-predicates.ts'
export { subjectMiddleware } from './middleware/subject.ts'
export { throttleMiddleware } from './middleware/throttle.ts'
export { timeoutMiddleware } from './middleware/timeout.ts'
export { validateMiddleware } from './middleware/validate.ts'
export { CircuitBreaker } from './circuit-breaker.ts'
export { constantBackoff, exponentialBackoff } from './backoff.ts'
export type { ChaosOptions, RandomDelayOptions, RandomFailureOptions } from './middleware/chaos.ts'
export type { CorrelationOptions } from './middleware/correlation.ts'
export type { DeadLetterOptions } from './middleware/dead-letter.ts'
export type { DeadlineOptions } from './middleware/deadline.ts'
export type { JsonSchemaError, JsonSchemaOptions, JsonSchemaProblem, JsonSchemaValidator } from './middleware/json-schema.ts'
export type { LoggingOptions } from './middleware/logging.ts'
export type { MetricsOptions } from './middleware/metrics.ts'
export type { RetryOptions, RetryState } from './middleware/retry.ts'
export type { ErrorKind } from './middleware/retry-predicates.ts'
export type { ThrottleOptions } from './middleware/throttle.ts'
export type { TimeoutOptions } from './middleware/timeout.ts'
export type { ValidateOptions } from './middleware/validate.ts'
export type { CircuitBreakerOptions, CircuitState } from './circuit-breaker.ts'
export type { Backoff, ExponentialBackoffOptions } from './backoff.ts'

// Ports and errors
export { consoleLogger, silentLogger } from './logger.ts'
export { idle, sleep, systemRuntime } from './runtime.ts'
export { installProbe, probe } from './probe.ts'
export { AckordError, errorCodes, InvalidOptionError, isAckordError, RejectError, TransactionRequiredError, toError } from './errors.ts'
export type { AckordErrorOptions, ErrorCode } from './errors.ts'
export type { Logger } from './logger.ts'
export type { MetricLabels, Metrics } from './metrics.ts'
export type { ProbeHook } from './probe.ts'
export type { Runtime, Timer, TimerOptions } from './runtime.ts'

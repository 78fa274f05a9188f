// Failures
export { retryExcept, RetryExhaustedError, retryMiddleware, retryOn, retryState } from './middleware/retry.ts'
export { deadLetterMiddleware } from './middleware/dead-letter.ts'
export { CircuitBreaker, circuitBreakerMiddleware, CircuitOpenError } from './middleware/circuit-breaker.ts'
export { recoverMiddleware } from './middleware/recover.ts'
export type { ErrorKind, RetryOptions, RetryState } from './middleware/retry.ts'
export type { DeadLetterOptions } from './middleware/dead-letter.ts'
export type { CircuitBreakerOptions, CircuitState } from './middleware/circuit-breaker.ts'

// Time
export { timeoutMiddleware } from './middleware/timeout.ts'
export { deadlineMiddleware } from './middleware/deadline.ts'
export { throttleMiddleware } from './middleware/throttle.ts'
export type { TimeoutOptions } from './middleware/timeout.ts'
export type { DeadlineOptions } from './middleware/deadline.ts'
export type { ThrottleOptions } from './middleware/throttle.ts'

// Validation
export { validateMiddleware } from './middleware/validate.ts'
export { jsonSchemaMiddleware, JsonSchemaRegistry } from './middleware/json-schema.ts'
export type { ValidateOptions } from './middleware/validate.ts'
export type { JsonSchemaError, JsonSchemaOptions, JsonSchemaProblem, JsonSchemaValidator } from './middleware/json-schema.ts'

// Attributes of outputs
export { correlationMiddleware } from './middleware/correlation.ts'
export { subjectMiddleware } from './middleware/subject.ts'
export type { CorrelationOptions } from './middleware/correlation.ts'

// Logs and metrics
export { loggingMiddleware } from './middleware/logging.ts'
export { metricsMiddleware } from './middleware/metrics.ts'
export type { LoggingOptions } from './middleware/logging.ts'
export type { MetricsOptions } from './middleware/metrics.ts'

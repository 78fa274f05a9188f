// What the sibling packages need beyond the public names. It promises nothing to anybody else.

export type { LinkedController } from './abortable.ts'
export { abortable, linkedController } from './abortable.ts'
export { sendDeadLetter } from './dead-letter.ts'
export { describeValue } from './errors.ts'
export { isRetryable, isSettled, retryAfterOf } from './failures.ts'
export { ackingOf } from './message.ts'
export { checkChoice, checkCount, checkDuration, checkFraction, checkFunction, checkName, checkNoMore } from './options.ts'
export { outputCompleter } from './outputs.ts'
export { guardLogger, guardMetrics } from './ports.ts'
export { destinationOf } from './publish-outputs.ts'
export { checkResultCount, checkResults, publishError } from './publish-results.ts'
export { nameOf } from './stages.ts'

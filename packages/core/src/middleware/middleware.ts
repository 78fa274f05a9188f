import { describeValue, InvalidOptionError } from '../errors.ts'
import type { Context } from '../message/context.ts'
import type { Message } from '../message/message.ts'
import { checkChoice, checkFunction } from '../options.ts'
import type { Part, SharedPorts } from '../ports/part-ports.ts'

/** Handles one message and returns its outputs. A rejection means that it was not handled. */
export type Process = (message: Message, context: Context) => Promise<readonly Message[]>

/**
 * Wraps the processing of a message. It calls `next` once; a middleware that calls it repeatedly on purpose (a retry) begins an attempt for each
 * call: `const attempt = beginAttempt(context); enter(attempt, () => next(message, attempt))`.
 */
export type Middleware = ((next: Process) => Process) & MiddlewareInfo

export interface MiddlewareInfo extends Part {
  /** Its role for the order check at start; see {@link MiddlewareRole}. Default: any position is valid. */
  readonly role?: MiddlewareRole | undefined
  /** The database or connection it works on, so that parts of different ones are not mixed. */
  readonly resource?: object | undefined
  /** The parts of a composed middleware, outermost first. */
  readonly parts?: readonly Middleware[] | undefined
  /** The number of concurrent messages it needs to be effective; a router with a lower concurrency warns when it starts. Default: any number. */
  readonly wantsConcurrency?: number | undefined
  /** Whether it gathers the messages of batch handlers. A router with batch handlers refuses to start without one that does. Default: false. */
  readonly gathersBatches?: boolean | undefined
}

/**
 * - `retry` repeats what is inside of it; `deadLetter` turns a failure into a success; `throttle` waits
 * - `transaction` begins and commits; `enclosingTransaction` handles messages inside a transaction that was begun elsewhere, as tests do
 * - `inbox` records inside a transaction; `leasedInbox` holds a lease outside of it
 * - `telemetry` has a span around the transaction
 * - `outbox` stores the outputs and returns none; `outputs` changes or validates outputs
 */
export type MiddlewareRole = (typeof middlewareRoles)[number]

const middlewareRoles = [
  'retry',
  'deadLetter',
  'throttle',
  'telemetry',
  'transaction',
  'enclosingTransaction',
  'inbox',
  'leasedInbox',
  'outbox',
  'outputs',
] as const

/** Adds the information for the order check to a middleware, and how it inherits the logger of its router. */
export function middleware(info: MiddlewareInfo, wrap: (next: Process) => Process): Middleware {
  checkFunction('middleware(info, wrap)', wrap)
  if (info.role !== undefined) checkChoice('role', info.role, middlewareRoles)
  return Object.assign(wrap, info)
}

/** Several middlewares as one; the first is the outermost. */
export function compose(...parts: readonly Middleware[]): Middleware {
  return middleware({ parts }, (next) => parts.reduceRight((inner, part) => wrapWith(part, inner), next))
}

/** Passes the router's ports on to middleware and its parts. */
export function passPorts(chain: readonly Middleware[], ports: SharedPorts): void {
  for (const part of chain) {
    part.inheritPorts?.(ports)
    passPorts(part.parts ?? [], ports)
  }
}

function wrapWith(part: Middleware, inner: Process): Process {
  const wrapped: unknown = part(inner)
  if (typeof wrapped === 'function') return wrapped as Process
  // The promise of an async one is ignored from here on.
  if (wrapped instanceof Promise) wrapped.catch(() => {})
  const name = part.name === '' ? 'A middleware' : `The middleware ${part.name}()`
  throw new InvalidOptionError(
    name,
    `must return a function: (next) => async (message, context) => …; it returned ${describeValue(wrapped)}.`,
  )
}

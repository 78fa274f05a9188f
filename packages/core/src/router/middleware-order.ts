import { AckordError } from '../errors.ts'
import type { Middleware, MiddlewareRole } from '../middleware/middleware.ts'
import type { AckStrategy } from './ack-strategy.ts'

interface OrderedPart {
  readonly role: MiddlewareRole
  readonly resource: object | undefined
}

const rightOrder =
  'The valid order, outermost first: telemetry, deadLetter, retry, throttle, then on SQL transaction > inbox > outbox, on Redis inbox > transaction > outbox, and innermost middleware that changes outputs.'

/** Rejects orders of middleware that are known to lose or duplicate something. `chain` is the middleware of a handler, outermost first. */
export function checkMiddlewareOrder(chain: readonly Middleware[], handler: string, ackStrategy: AckStrategy): void {
  const ordered = chain.flatMap(orderedParts)
  ordered.forEach((part, index) => {
    const outer = ordered.slice(0, index)
    const inner = ordered.slice(index + 1)
    const problem = problemOf(part, outer, inner)
    if (problem !== undefined) throw wrongOrder(handler, problem)
  })
  if (ackStrategy === 'forward' && has(ordered, 'inbox', 'leasedInbox') && !has(ordered, 'outbox')) {
    throw wrongOrder(
      handler,
      "an inbox with ackStrategy 'forward' and no outbox: when an output is nacked the message is redelivered, is treated as a duplicate, and its outputs are lost. Add an outbox",
    )
  }
}

/** The number of concurrent messages that the most demanding of them needs. */
export function wantedConcurrency(chain: readonly Middleware[]): number {
  return Math.max(0, ...chain.map((part) => Math.max(part.wantsConcurrency ?? 0, wantedConcurrency(part.parts ?? []))))
}

function orderedParts(part: Middleware): OrderedPart[] {
  const own: OrderedPart[] = part.role === undefined ? [] : [{ role: part.role, resource: part.resource }]
  return [...own, ...(part.parts ?? []).flatMap(orderedParts)]
}

function problemOf(part: OrderedPart, outer: readonly OrderedPart[], inner: readonly OrderedPart[]): string | undefined {
  switch (part.role) {
    case 'retry':
      if (has(outer, 'transaction', 'inbox', 'leasedInbox', 'outbox'))
        return 'retry inside a transaction, inbox or outbox: every attempt needs a new one. Put retry outside'
      return undefined
    case 'deadLetter':
      if (has(outer, 'retry'))
        return 'deadLetter inside of retry: it turns the first failure into a success, and nothing is ever retried. Put it outside'
      if (has(outer, 'transaction', 'inbox', 'leasedInbox'))
        return "deadLetter inside a transaction or inbox: it turns a failure into a success, and the handler's writes would be committed. Put it outside"
      return undefined
    case 'throttle':
      if (has(outer, 'transaction')) return 'throttle inside a transaction: it would wait while the transaction is open. Put it outside'
      return undefined
    case 'telemetry':
      if (has(outer, 'transaction', 'inbox', 'leasedInbox', 'outbox'))
        return 'telemetry inside a transaction, inbox or outbox: its span would end before the commit. Put it outermost'
      return has(outer, 'telemetry') ? 'telemetry twice around one handler: every message would have two spans' : undefined
    case 'inbox':
      if (!hasOn(outer, 'transaction', part.resource))
        return 'inbox without a transaction of the same database outside of it: the message would be recorded and its effects lost, or the other way round'
      return has(outer, 'inbox') ? 'two inboxes around one handler' : undefined
    case 'leasedInbox':
      if (hasOn(outer, 'transaction', part.resource))
        return 'a leased inbox inside the transaction that it should fence. Put the inbox outside'
      return has(outer, 'leasedInbox') ? 'two inboxes around one handler' : undefined
    case 'outbox':
      if (!hasOn(outer, 'transaction', part.resource))
        return 'outbox without a transaction of the same database outside of it: events and effects would not commit together'
      if (has(outer, 'outbox')) return 'two outboxes around one handler: the outer one would never see an event'
      if ([...outer, ...inner].some((other) => isInbox(other) && other.resource !== part.resource))
        return 'inbox and outbox on different databases: they cannot commit together'
      if (has(inner, 'transaction', 'inbox', 'leasedInbox'))
        return 'outbox outside of the transaction or inbox it belongs to. Put the outbox inside'
      return undefined
    case 'outputs':
      if (has(inner, 'outbox'))
        return 'a middleware that changes or validates outputs outside of the outbox, which returns none: it would have no effect. Put it inside'
      return undefined
    case 'enclosingTransaction':
      if (has(outer, 'transaction', 'inbox', 'leasedInbox', 'outbox'))
        return 'insideTransaction() inside a transaction, inbox or outbox: their rows would be committed while the writes of the handler belong to another transaction, which may be rolled back. Put insideTransaction() outermost'
      return undefined
    case 'transaction':
      return undefined
  }
}

function has(ordered: readonly OrderedPart[], ...roles: readonly MiddlewareRole[]): boolean {
  return ordered.some((part) => roles.includes(part.role))
}

function hasOn(ordered: readonly OrderedPart[], role: MiddlewareRole, resource: object | undefined): boolean {
  return ordered.some((part) => part.role === role && part.resource === resource)
}

function isInbox({ role }: OrderedPart): boolean {
  return role === 'inbox' || role === 'leasedInbox'
}

function wrongOrder(handler: string, problem: string): AckordError {
  return new AckordError(
    'ACKORD_MIDDLEWARE_ORDER',
    `The middleware around handler '${handler}' is in an invalid order: ${problem}. ${rightOrder}`,
  )
}

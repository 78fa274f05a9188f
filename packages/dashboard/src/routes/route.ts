import { isAckordError, type Runtime } from '@ackord/core'
import type { DeadLetterPort } from '@ackord/core/broker'
import type { InboxAdmin, OutboxAdmin } from '@ackord/outbox'
import type { ActionLog } from '../actions/action-log.ts'
import type { Identity } from '../actions/identity.ts'
import type { Jobs } from '../actions/jobs.ts'
import type { RateLimit } from '../actions/rate-limit.ts'
import type { LetterView } from '../api/letter-view.ts'
import type { RecordView } from '../api/record-view.ts'
import type { SealedTexts } from '../api/sealed-texts.ts'
import type { DoctorCheck, Right } from '../api/types.ts'
import { ApiFailure, forbidden, invalid, notFound } from '../http/api-failure.ts'
import type { CsrfTokens } from '../http/request-checks.ts'
import type { EventStreams } from '../overview/event-streams.ts'
import type { OverviewPoller } from '../overview/poller.ts'

/** The stores and services that the routes use. */
export interface Services {
  readonly stores: ReadonlyMap<string, OutboxAdmin>
  readonly inboxes: ReadonlyMap<string, InboxAdmin>
  readonly deadLetters: ReadonlyMap<string, DeadLetterPort>
  readonly doctor: (() => Promise<readonly DoctorCheck[]>) | undefined
  readonly readOnly: boolean
  readonly traceUrl: string | undefined
  readonly view: RecordView
  readonly letterView: LetterView
  readonly sealed: SealedTexts
  readonly poller: OverviewPoller
  readonly events: EventStreams
  readonly jobs: Jobs
  readonly actionLog: ActionLog
  readonly actionLimit: RateLimit
  readonly previewLimit: RateLimit
  readonly csrf: CsrfTokens
  readonly runtime: Runtime
}

/** A request for a route, from a user who has the route's rights. */
export interface Call {
  readonly request: Request
  readonly parameters: URLSearchParams
  /** The part of the path at `:name`. */
  readonly part: (name: string) => string
  readonly identity: Identity
}

export interface Route {
  readonly method: 'GET' | 'POST'
  /** Below `api/`, with `:name` for a part that varies. */
  readonly path: string
  /** The rights that it needs in any case. */
  readonly rights: readonly Right[]
  readonly answer: (call: Call) => Response | Promise<Response>
}

/** The route for a path below `api/`. Throws if there is none, or none with this method. */
export function findRoute(
  routes: readonly Route[],
  method: string,
  path: string,
): { readonly route: Route; readonly part: (name: string) => string } {
  const parts = path.split('/').map(decodePart)
  const matching = routes.filter((route) => matches(route.path.split('/'), parts))
  const route = matching.find((each) => each.method === method)
  if (route !== undefined) return { route, part: (name) => parts[route.path.split('/').indexOf(`:${name}`)] ?? '' }
  if (matching.length === 0) throw notFound('There is no such route.')
  const allow = matching.map((each) => each.method).join(', ')
  throw new ApiFailure(405, 'method', `The route does not accept this method, only ${allow}.`, { allow })
}

function matches(pattern: readonly string[], parts: readonly string[]): boolean {
  return (
    pattern.length === parts.length && pattern.every((each, index) => (each.startsWith(':') ? parts[index] !== '' : each === parts[index]))
  )
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw notFound('There is no such route: the path is not encoded correctly.')
  }
}

/** The store, inbox or dead letters that the path names. */
export function findNamed<T>(all: ReadonlyMap<string, T>, kind: string, name: string): T {
  const found = all.get(name)
  if (found === undefined) throw notFound(`There is no ${kind} ${JSON.stringify(name)}.`)
  return found
}

/** Throws if the dashboard refuses all actions. */
export function checkWritable({ readOnly }: Services): void {
  if (readOnly) throw forbidden('read_only', 'This dashboard is read-only.')
}

/** Makes a call with arguments of the client. Arguments that the store refuses, such as a cursor, are a fault of the request. */
export async function withClientInput<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    throw isAckordError(error, 'ACKORD_INVALID_OPTION') ? invalid(error.message) : error
  }
}

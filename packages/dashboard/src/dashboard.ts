import type { IncomingMessage, ServerResponse } from 'node:http'
import { answerTimeout } from '@ackord/core/internal'
import { ActionLog } from './actions/action-log.ts'
import { checkIdentity, checkRights } from './actions/identity.ts'
import { Jobs } from './actions/jobs.ts'
import { RateLimit } from './actions/rate-limit.ts'
import { LetterView } from './api/letter-view.ts'
import { RecordView } from './api/record-view.ts'
import { Redactor } from './api/redactor.ts'
import { SealedTexts } from './api/sealed-texts.ts'
import { checkOptions, type DashboardOptions, type Settings } from './dashboard-options.ts'
import { ApiFailure, notFound } from './http/api-failure.ts'
import { type AdaptedRequest, handleNode } from './http/node-handler.ts'
import { CsrfTokens, checkJsonType, checkSameOrigin } from './http/request-checks.ts'
import { failureResponse, respond } from './http/responses.ts'
import { EventStreams } from './overview/event-streams.ts'
import { OverviewPoller } from './overview/poller.ts'
import { PageFiles } from './page-files.ts'
import { actionRoutes } from './routes/action-routes.ts'
import { inspectionRoutes } from './routes/inspection-routes.ts'
import { letterRoutes } from './routes/letter-routes.ts'
import { overviewRoutes } from './routes/overview-routes.ts'
import { recordRoutes } from './routes/record-routes.ts'
import { findRoute, type Route, type Services } from './routes/route.ts'

/** A web page for operators. Its functions are bound, and may be passed separately. */
export interface Dashboard extends AsyncDisposable {
  /** For servers with the Fetch API: Hono, Bun, Deno, Next. Never rejects. */
  readonly fetch: (request: Request) => Promise<Response>
  /**
   * For `node:http`, Express, Nest and Fastify's raw requests. Works before and behind parsers of JSON bodies. `next` is called for paths outside of the base path;
   * without it they are answered with 404.
   */
  readonly node: (request: IncomingMessage, response: ServerResponse, next?: () => void) => void
  /** Ends open streams of events, stops running actions after their current step, and waits for them for five seconds. Requests are then answered with 503. */
  close(): Promise<void>
}

const maxActionsPerMinute = 20
const maxPreviewsPerMinute = 60

/** Does no I/O: stores are read when a browser asks. */
export function createDashboard(options: DashboardOptions): Dashboard {
  return new WebDashboard(checkOptions(options), new PageFiles())
}

/** @internal With other static files than `createDashboard()`, for tests. */
export class WebDashboard implements Dashboard {
  readonly #settings: Settings
  readonly #pageFiles: PageFiles
  readonly #services: Services
  readonly #routes: readonly Route[]
  #closing: Promise<void> | undefined

  constructor(settings: Settings, pageFiles: PageFiles) {
    this.#settings = settings
    this.#pageFiles = pageFiles
    this.#services = createServices(settings)
    this.#routes = [overviewRoutes, recordRoutes, actionRoutes, letterRoutes, inspectionRoutes].flatMap((create) => create(this.#services))
  }

  readonly fetch = async (request: Request): Promise<Response> => {
    const { basePath = '' } = this.#settings
    return (await this.#answer(request, basePath)) ?? outsideOf(basePath)
  }

  readonly node = (incoming: IncomingMessage, outgoing: ServerResponse, next?: () => void): void => {
    const { basePath } = this.#settings
    const answer = async ({ request, mountPath }: AdaptedRequest) => {
      const base = basePath ?? mountPath
      const response = await this.#answer(request, base, incoming)
      return response ?? (next === undefined ? outsideOf(base) : undefined)
    }
    void handleNode(incoming, outgoing, answer, () => next?.())
  }

  close(): Promise<void> {
    const { poller, events, jobs } = this.#services
    poller.close()
    events.close()
    this.#closing ??= jobs.close(answerTimeout)
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** `undefined` for a path outside of the base path. */
  async #answer(request: Request, base: string, incoming?: IncomingMessage): Promise<Response | undefined> {
    const { pathname } = new URL(request.url)
    if (base !== '' && pathname === base) return redirectBelow(base)
    if (!pathname.startsWith(`${base}/`)) return undefined
    const path = pathname.slice(base.length + 1)
    try {
      if (this.#closing !== undefined) throw new ApiFailure(503, 'closed', 'The dashboard was closed.')
      if (path.startsWith('api/')) return await this.#answerApi(request, path.slice('api/'.length), incoming)
      return await this.#pageFiles.respond(request.method, path)
    } catch (error) {
      return failureResponse(this.#failureOf(error, { method: request.method, path }))
    }
  }

  async #answerApi(request: Request, path: string, incoming: IncomingMessage | undefined): Promise<Response> {
    const found: unknown = await this.#settings.authorize(request, incoming)
    if (found === undefined || found === null)
      throw new ApiFailure(401, 'unauthorized', 'You are not signed in, or may not use this dashboard.')
    const identity = checkIdentity(found)
    try {
      const { route, part } = findRoute(this.#routes, request.method, path)
      if (route.method === 'POST') {
        checkSameOrigin(request)
        this.#services.csrf.check(request.headers, identity.name)
        checkJsonType(request)
      }
      checkRights(identity, route.rights)
      return await route.answer({ request, part, parameters: new URL(request.url).searchParams, identity })
    } catch (error) {
      if (error instanceof ApiFailure && error.status === 403)
        this.#settings.logger.warn({ by: identity.name, path, code: error.code }, 'The dashboard has refused a request.')
      throw error
    }
  }

  /** The errors of stores and of the application are for the log, not for clients. */
  #failureOf(error: unknown, request: { readonly method: string; readonly path: string }): ApiFailure {
    if (error instanceof ApiFailure) return error
    this.#settings.logger.error({ err: error, ...request }, 'The dashboard could not answer a request.')
    return new ApiFailure(500, 'internal', 'The request could not be answered. The log of the service has the reason.')
  }
}

function createServices(settings: Settings): Services {
  const { stores, inboxes, deadLetters, metrics, doctor, readOnly, redact, onAction, traceUrl, runtime, logger } = settings
  const poller = new OverviewPoller(stores, metrics, runtime)
  const redactor = new Redactor(redact, { runtime, logger })
  const sealed = new SealedTexts()
  const view = new RecordView(redactor, sealed)
  return {
    stores,
    inboxes,
    deadLetters,
    doctor,
    readOnly,
    traceUrl,
    view,
    letterView: new LetterView(redactor, sealed),
    sealed,
    poller,
    events: new EventStreams(poller, runtime),
    jobs: new Jobs(runtime, (error) => view.errorText(error)),
    actionLog: new ActionLog(logger, onAction),
    actionLimit: new RateLimit(runtime, maxActionsPerMinute),
    previewLimit: new RateLimit(runtime, maxPreviewsPerMinute),
    csrf: new CsrfTokens(),
    runtime,
  }
}

/** The page has relative paths, which need the slash. Relative itself: a proxy may have removed a part of the path. */
function redirectBelow(base: string): Response {
  return respond(308, null, { location: `./${base.slice(base.lastIndexOf('/') + 1)}/` })
}

function outsideOf(base: string): Response {
  return failureResponse(notFound(`The dashboard is at ${base}/.`))
}

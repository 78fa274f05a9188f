import { type HeaderList, headersSince, mergeHeaders, type RequestView, toHeaderList } from '@ackord/http/idempotency'
import type { StoredAnswer } from '@ackord/outbox'

/** The parts of a request that Express and Fastify share. */
export interface PlatformRequest {
  readonly method: string
  readonly url: string
  /** The URL before routers have shortened it. */
  readonly originalUrl?: string | undefined
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly body?: unknown
}

/** A response of Express, or a reply of Fastify: what both have, and what each calls its own way. */
interface PlatformResponse {
  statusCode: number
  getHeaders(): Readonly<Record<string, number | string | readonly string[] | undefined>>
  /** Express. */
  setHeader?(name: string, value: string | readonly string[]): unknown
  readonly headersSent?: boolean | undefined
  /** Fastify. */
  header?(name: string, value: string | readonly string[]): unknown
  readonly sent?: boolean | undefined
}

export function viewOf(request: PlatformRequest): RequestView {
  return {
    method: request.method,
    url: request.originalUrl ?? request.url,
    header: (name) => request.headers[name],
    body: () => request.body,
  }
}

/** The response of a request on Express or Fastify. */
export class HttpResponse {
  readonly #response: PlatformResponse
  readonly #before: HeaderList

  constructor(response: PlatformResponse) {
    this.#response = response
    this.#before = toHeaderList(response.getHeaders())
  }

  get status(): number {
    return this.#response.statusCode
  }

  get isSent(): boolean {
    return this.#response.headersSent === true || this.#response.sent === true
  }

  /** The headers that were added or changed since this object was created. Others belong to the request at hand, such as its id. */
  changedHeaders(): HeaderList {
    return headersSince(this.#before, toHeaderList(this.#response.getHeaders()))
  }

  /** Sets the status and the headers of an answer. Nest sends its body. */
  replay({ status, headers }: StoredAnswer): void {
    for (const [name, values] of mergeHeaders([], headers)) {
      const value = values.length === 1 ? (values[0] ?? '') : values
      if (this.#response.setHeader === undefined) this.#response.header?.(name, value)
      else this.#response.setHeader(name, value)
    }
    this.#response.statusCode = status
  }
}

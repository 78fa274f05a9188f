import { channel } from 'node:diagnostics_channel'
import {
  type Closable,
  InvalidOptionError,
  type Publisher,
  type PublishFailure,
  type PublishResult,
  type RawMessage,
  type Runtime,
  systemRuntime,
} from '@ackord/core'
import {
  createPublisher,
  destinationFailure,
  type Outgoing,
  type PublisherDriver,
  type SendOptions,
  structuredContentType,
  writeTraceHeaders,
} from '@ackord/core/broker'
import { abortable, checkChoice, checkCount, checkDuration, checkFunction, groupBy, rejectUnknownOptions } from '@ackord/core/internal'
import { batchType } from '../cloudevents/content-mode.ts'
import { checkHeaders, checkWritable, encodeText, writeHeaders } from '../cloudevents/headers.ts'
import { signingKeys } from '../cloudevents/signature.ts'
import { sendBatch, sendInOrder } from './send-order.ts'
import { type Endpoint, type EventRequest, endpointOf, type HttpFetch, type RequestSettings, sendRequest } from './send-request.ts'
import { checkStatuses, type HttpVerdict } from './status-verdicts.ts'

export interface HttpPublisherOptions {
  /** The URL that all messages are sent to. Its user and password are sent as basic authorization. Default: each destination is a URL itself. */
  readonly url?: string | URL | undefined
  /** Returns the URL of a message to this destination, instead of `url`. Default: `url`. */
  readonly route?: ((destination: string, message: RawMessage) => string | URL) | undefined
  /**
   * How events are written. `binary`: the data is the body, attributes are headers. `structured`: both are JSON in the body. `batch`: all messages
   * of a call to one URL are one request, and confirmed or refused together. Default: 'binary', and 'structured' with `sign`: a signature covers
   * the body only.
   */
  readonly mode?: 'binary' | 'structured' | 'batch' | undefined
  /** Further headers, such as `authorization`; or a function that returns them, called once per call of `publish()`. Default: none. */
  readonly headers?:
    | Readonly<Record<string, string>>
    | ((destination: string) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>)
    | undefined
  /** Signs each request as Standard Webhooks does, with this secret (`whsec_…`) or, while one is being replaced, with several. Default: unsigned. */
  readonly sign?: string | readonly string[] | undefined
  /** The most requests of a call that are in flight at the same time. Messages with the same `partitionkey` are sent one after the other. Default: 8. */
  readonly concurrency?: number | undefined
  /**
   * Milliseconds that an answer may take; shorter than the relay's `publishTimeout`, which ends all requests of a call together.
   * No answer in time counts as status 504. Node's own `fetch` times out after five minutes. Default: 8,000.
   */
  readonly timeout?: number | undefined
  /** Overrides the meaning of a status: `{ 404: 'park', 409: 'confirmed' }`. Default: the table in the guide. */
  readonly statuses?: Readonly<Record<number, HttpVerdict>> | undefined
  /** Default: the global one. */
  readonly fetch?: HttpFetch | undefined
  readonly runtime?: Runtime | undefined
}

/**
 * Sends CloudEvents over HTTP. A message that is `ok` was answered with a status of 2xx; any other one may have arrived nevertheless, and has the same id when it is sent again.
 * Redirects are not followed. After a failure of the destination, the rest of the call is not sent there.
 */
export function httpPublisher(options: HttpPublisherOptions = {}): Publisher & Closable {
  const {
    url,
    route,
    sign,
    mode = sign === undefined ? 'binary' : 'structured',
    headers = {},
    concurrency = 8,
    timeout = 8000,
    statuses = {},
    fetch = (target, init) => globalThis.fetch(target, init),
    runtime = systemRuntime,
    ...unknown
  } = options
  rejectUnknownOptions('An HTTP publisher', unknown)
  if (options.sign === undefined && Object.hasOwn(options, 'sign')) {
    throw new InvalidOptionError('sign', 'is undefined; a variable of the environment may be missing. Omit the option to sign nothing.')
  }
  if (url !== undefined && route !== undefined)
    throw new InvalidOptionError('route', "cannot be used together with 'url'. Omit one of them.")
  if (route !== undefined) checkFunction('route', route)
  checkChoice('mode', mode, ['binary', 'structured', 'batch'])
  if (typeof headers !== 'function') checkHeaders(headers)
  checkCount('concurrency', concurrency)
  checkDuration('timeout', timeout, { min: 1 })
  checkStatuses(statuses)
  checkFunction('fetch', fetch)
  const keys = sign === undefined ? [] : signingKeys('sign', sign)
  const endpoint = url === undefined ? undefined : endpointOf('url', url)
  return createPublisher(new HttpPublisherDriver({ endpoint, route, mode, headers, concurrency, timeout, statuses, fetch, runtime, keys }))
}

interface PublisherSettings extends RequestSettings {
  readonly endpoint: Endpoint | undefined
  readonly route: HttpPublisherOptions['route']
  readonly mode: 'binary' | 'structured' | 'batch'
  readonly headers: NonNullable<HttpPublisherOptions['headers']>
  readonly concurrency: number
}

class HttpPublisherDriver implements PublisherDriver<EventRequest, Endpoint> {
  readonly broker = 'HTTP'
  readonly system = 'http'
  readonly routeName = 'URL'
  readonly runtime: Runtime
  readonly closeTimeout: number
  readonly #settings: PublisherSettings

  constructor(settings: PublisherSettings) {
    this.#settings = settings
    this.runtime = settings.runtime
    // As long as one answer may take.
    this.closeTimeout = settings.timeout
  }

  // Without the option `url` it depends on the destination.
  get serverAddress(): string | undefined {
    return this.#settings.endpoint?.host
  }

  get serverPort(): number | undefined {
    return this.#settings.endpoint?.port
  }

  route(destination: string, message: RawMessage): Endpoint | PublishFailure {
    const { route, endpoint } = this.#settings
    if (endpoint !== undefined) return endpoint
    if (route !== undefined) return endpointOf('route', route(destination, message))
    try {
      return endpointOf('destination', destination)
    } catch (cause) {
      return notUrl(cause)
    }
  }

  write(message: RawMessage, endpoint: Endpoint): EventRequest {
    const { mode, runtime } = this.#settings
    const key = message.partitionKey
    // In binary mode the signature covers the body and the name, so the name is the id as the header has it.
    const name = message.id === undefined ? runtime.uuid() : encodeText(message.id, 'id')
    const trace: Record<string, string> = {}
    // The events of a batch have traces of their own.
    if (mode !== 'batch') writeTraceHeaders(trace, message.attributes)
    if (mode === 'binary') return { endpoint, headers: writeHeaders(message.attributes), body: message.data, name, key, trace }
    checkWritable(message.attributes)
    const type = mode === 'batch' ? batchType : structuredContentType
    return { endpoint, headers: { 'content-type': `${type}; charset=utf-8` }, body: Buffer.from(JSON.stringify(message)), name, key, trace }
  }

  async send(messages: readonly Outgoing<EventRequest>[], { destination, signal }: SendOptions): Promise<void> {
    let extraHeaders: Readonly<Record<string, string>>
    try {
      extraHeaders = await abortable(this.#headers(destination), signal)
    } catch (cause) {
      for (const message of messages) message.settle(noHeaders(message.item.endpoint.shown, cause))
      return
    }
    const { mode, concurrency } = this.#settings
    if (mode !== 'batch') {
      await sendInOrder(messages, concurrency, (item) => this.#request(item, extraHeaders, signal))
      return
    }
    const urls = groupBy(messages, ({ item }) => item.endpoint.url)
    await Promise.all(Array.from(urls, ([, batch]) => sendBatch(batch, (part) => this.#requestBatch(part, extraHeaders, signal))))
  }

  #request(item: EventRequest, extraHeaders: Readonly<Record<string, string>>, signal: AbortSignal): Promise<PublishResult> {
    const { endpoint } = item
    const authorization = endpoint.authorization === undefined ? {} : { authorization: endpoint.authorization }
    const trace = addsTrace(extraHeaders) ? item.trace : {}
    return sendRequest({ ...item, headers: { ...authorization, ...trace, ...extraHeaders, ...item.headers } }, this.#settings, signal)
  }

  #requestBatch(
    items: readonly EventRequest[],
    extraHeaders: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<PublishResult> {
    const [first] = items
    if (first === undefined) return Promise.resolve({ ok: true })
    const body = Buffer.concat([
      Buffer.from('['),
      ...items.flatMap((item, index) => (index === 0 ? [item.body] : [comma, item.body])),
      Buffer.from(']'),
    ])
    return this.#request({ ...first, body, name: this.#settings.runtime.uuid() }, extraHeaders, signal)
  }

  async #headers(destination: string): Promise<Readonly<Record<string, string>>> {
    const { headers } = this.#settings
    const given = typeof headers === 'function' ? await headers(destination) : headers
    checkHeaders(given)
    return Object.fromEntries(Object.entries(given).map(([name, value]) => [name.toLowerCase(), value]))
  }
}

const comma = Buffer.from(',')

const requestCreated = channel('undici:request:create')

/**
 * Whether a request gets the trace of its event. Not if the option `headers` has one, whose `tracestate` may be missing. And not if there is an instrumentation of `fetch`: it adds the trace of the
 * request itself, and several do so without removing what is there. Receivers ignore two `traceparent` headers.
 */
function addsTrace(extraHeaders: Readonly<Record<string, string>>): boolean {
  return extraHeaders['traceparent'] === undefined && !requestCreated.hasSubscribers
}

/** Without `url` and `route` the destination must be a URL. An invalid one is not shown: it may contain a password. */
function notUrl(cause: unknown): PublishFailure {
  return destinationFailure(
    'The destination is not a URL. Set the option url or route of the publisher, or use absolute URLs as destinations.',
    cause,
  )
}

/** The option `headers` failed. */
function noHeaders(shown: string, cause: unknown): PublishFailure {
  return destinationFailure(`Could not determine the headers for ${shown}.`, cause)
}

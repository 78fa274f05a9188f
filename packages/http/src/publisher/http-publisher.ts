import { setMaxListeners } from 'node:events'
import {
  InvalidOptionError,
  type Publisher,
  type PublishFailure,
  type PublishResult,
  type RawMessage,
  type Runtime,
  systemRuntime,
} from '@ackord/core'
import {
  abortable,
  checkChoice,
  checkCount,
  checkDuration,
  checkFunction,
  checkNoMore,
  linkedController,
  PublishCalls,
} from '@ackord/core/internal'
import { batchType, structuredType } from '../cloudevents/content-mode.ts'
import { checkHeaders, checkWritable, encodeHeader, writeHeaders } from '../cloudevents/headers.ts'
import { signingKeys } from '../cloudevents/signature.ts'
import { aborted, noHeaders, noUrl, unencodable, unrouted, wrongData } from './publish-failures.ts'
import { sendBatch, sendInLanes } from './send-order.ts'
import {
  checkStatuses,
  type Endpoint,
  endpointOf,
  type HttpFetch,
  type HttpVerdict,
  type RequestSettings,
  sendRequest,
} from './send-request.ts'

export interface HttpPublisherOptions {
  /** Where all messages go. User and password in it are sent as basic authorization. Default: each destination is a URL itself. */
  readonly url?: string | URL | undefined
  /** Where a message to this destination goes, instead of `url`. Default: `url`. */
  readonly route?: ((destination: string, message: RawMessage) => string | URL) | undefined
  /**
   * How events are written. `binary`: the data is the body, attributes are headers. `structured`: both are JSON in the body. `batch`: all messages
   * of a call to one URL are one request, and confirmed or refused together. Default: 'binary', and 'structured' with `sign`: a signature covers
   * the body only.
   */
  readonly mode?: 'binary' | 'structured' | 'batch' | undefined
  /** Further headers, such as `authorization`; or a function that gives them, asked once per call of `publish()`. Default: none. */
  readonly headers?:
    | Readonly<Record<string, string>>
    | ((destination: string) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>)
    | undefined
  /** Signs each request as Standard Webhooks does, with this secret (`whsec_…`) or, while one is being replaced, with several. Default: unsigned. */
  readonly sign?: string | readonly string[] | undefined
  /** How many requests of a call may be under way at once. Those of one `partitionkey` are sent one after the other. Default: 8. */
  readonly concurrency?: number | undefined
  /**
   * Milliseconds that the receiver has to answer; shorter than the relay's `publishTimeout`, or that ends all requests of a call together.
   * An answer that does not come counts as status 504. Node's own `fetch` gives up after five minutes. Default: 8,000.
   */
  readonly timeout?: number | undefined
  /** What a status means, where the usual meaning does not fit: `{ 404: 'park', 409: 'confirmed' }`. Default: the table in the guide. */
  readonly statuses?: Readonly<Record<number, HttpVerdict>> | undefined
  /** Default: the global one. */
  readonly fetch?: HttpFetch | undefined
  readonly runtime?: Runtime | undefined
}

/**
 * Sends CloudEvents over HTTP. What is `ok` was answered with a status of 2xx; what is not may have arrived all the same, and comes again with the same id.
 * Redirects are not followed. Once a destination is found to be at fault, the rest of the call is not sent there.
 */
export function httpPublisher(options: HttpPublisherOptions = {}): Publisher & AsyncDisposable {
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
  checkNoMore('An HTTP publisher', unknown)
  if (options.sign === undefined && Object.hasOwn(options, 'sign')) {
    throw new InvalidOptionError(
      'sign',
      'is undefined, as a secret that is missing in the environment is. Leave the option out to sign nothing.',
    )
  }
  if (url !== undefined && route !== undefined)
    throw new InvalidOptionError('route', "cannot be used together with 'url'. Leave one of them out.")
  if (route !== undefined) checkFunction('route', route)
  checkChoice('mode', mode, ['binary', 'structured', 'batch'])
  if (typeof headers !== 'function') checkHeaders(headers)
  checkCount('concurrency', concurrency)
  checkDuration('timeout', timeout, { min: 1 })
  checkStatuses(statuses)
  checkFunction('fetch', fetch)
  const keys = sign === undefined ? [] : signingKeys('sign', sign)
  const endpoint = url === undefined ? undefined : endpointOf('url', url)
  return new HttpPublisher({ endpoint, route, mode, headers, concurrency, timeout, statuses, fetch, runtime, keys })
}

interface PublisherSettings extends RequestSettings {
  readonly endpoint: Endpoint | undefined
  readonly route: HttpPublisherOptions['route']
  readonly mode: 'binary' | 'structured' | 'batch'
  readonly headers: NonNullable<HttpPublisherOptions['headers']>
  readonly concurrency: number
}

interface Prepared {
  readonly endpoint: Endpoint
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  readonly name: string
  readonly key: string | undefined
}

interface Outgoing extends Prepared {
  readonly url: string
  readonly shown: string
  readonly lane: string | undefined
  readonly settle: (result: PublishResult) => void
}

class HttpPublisher implements Publisher, AsyncDisposable {
  readonly #settings: PublisherSettings
  readonly #calls = new PublishCalls('The HTTP publisher')
  readonly #closing = new AbortController()
  #disposing: Promise<void> | undefined

  constructor(settings: PublisherSettings) {
    this.#settings = settings
    // Every call listens to it, and Node takes more than ten for a leak.
    setMaxListeners(0, this.#closing.signal)
  }

  async publish(
    destination: string,
    messages: readonly RawMessage[],
    options: { readonly signal: AbortSignal },
  ): Promise<readonly PublishResult[]> {
    return await this.#calls.run(destination, options.signal, () => this.#publish(destination, messages, options.signal))
  }

  /** Waits for what is being sent, as long as one answer may take; then gives it up. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#disposing ??= this.#dispose()
    return this.#disposing
  }

  /** Never rejects. */
  async #publish(destination: string, messages: readonly RawMessage[], signal: AbortSignal): Promise<readonly PublishResult[]> {
    const outgoing: Outgoing[] = []
    const results = messages.map((message) => {
      const prepared = this.#prepare(destination, message)
      if ('ok' in prepared) return prepared
      const { endpoint, key } = prepared
      return new Promise<PublishResult>((settle) => {
        const lane = key === undefined ? undefined : `${endpoint.url} ${key}`
        outgoing.push({ ...prepared, url: endpoint.url, shown: endpoint.shown, lane, settle })
      })
    })
    using stop = linkedController(signal)
    const onClosing = () => stop.abort(this.#closing.signal.reason)
    this.#closing.signal.addEventListener('abort', onClosing, { once: true })
    try {
      if (outgoing.length > 0) await this.#send(destination, outgoing, stop.signal)
      return await Promise.all(results)
    } finally {
      this.#closing.signal.removeEventListener('abort', onClosing)
    }
  }

  async #send(destination: string, outgoing: readonly Outgoing[], signal: AbortSignal): Promise<void> {
    let more: Readonly<Record<string, string>>
    try {
      more = await abortable(this.#headers(destination), signal)
    } catch (cause) {
      for (const { shown, settle } of outgoing) settle(signal.aborted ? aborted(shown, signal.reason) : noHeaders(shown, cause))
      return
    }
    const { mode, concurrency } = this.#settings
    if (mode !== 'batch') {
      await sendInLanes(outgoing, concurrency, (item) => this.#request(item, more, signal))
      return
    }
    const urls = new Map<string, Outgoing[]>()
    for (const item of outgoing) urls.set(item.url, [...(urls.get(item.url) ?? []), item])
    await Promise.all([...urls.values()].map((items) => sendBatch(items, (part) => this.#requestBatch(part, more, signal))))
  }

  #request(item: Prepared, more: Readonly<Record<string, string>>, signal: AbortSignal): Promise<PublishResult> {
    const { endpoint } = item
    const authorization = endpoint.authorization === undefined ? {} : { authorization: endpoint.authorization }
    return sendRequest({ ...item, headers: { ...authorization, ...more, ...item.headers } }, this.#settings, signal)
  }

  #requestBatch(items: readonly Outgoing[], more: Readonly<Record<string, string>>, signal: AbortSignal): Promise<PublishResult> {
    const [first] = items
    if (first === undefined) return Promise.resolve({ ok: true })
    const body = Buffer.concat([
      Buffer.from('['),
      ...items.flatMap((item, index) => (index === 0 ? [item.body] : [comma, item.body])),
      Buffer.from(']'),
    ])
    return this.#request({ ...first, body, name: this.#settings.runtime.uuid() }, more, signal)
  }

  async #headers(destination: string): Promise<Readonly<Record<string, string>>> {
    const { headers } = this.#settings
    const given = typeof headers === 'function' ? await headers(destination) : headers
    checkHeaders(given)
    return Object.fromEntries(Object.entries(given).map(([name, value]) => [name.toLowerCase(), value]))
  }

  #prepare(destination: string, message: RawMessage): Prepared | PublishFailure {
    const { mode, route, endpoint: fixed, runtime } = this.#settings
    let endpoint: Endpoint
    try {
      endpoint =
        fixed ?? endpointOf(route === undefined ? 'destination' : 'route', route === undefined ? destination : route(destination, message))
    } catch (cause) {
      return route === undefined ? noUrl(cause) : unrouted(destination, cause)
    }
    if (!(message.data instanceof Uint8Array)) return wrongData(endpoint.shown, message.data)
    const key = message.partitionKey
    try {
      // Binary, it is the body that is signed, and the name with it: so it is the id as the header has it.
      const name = message.id === undefined ? runtime.uuid() : encodeHeader(message.id, 'id')
      if (mode === 'binary') return { endpoint, headers: writeHeaders(message.attributes), body: message.data, name, key }
      checkWritable(message.attributes)
      const type = mode === 'batch' ? batchType : structuredType
      return { endpoint, headers: { 'content-type': `${type}; charset=utf-8` }, body: Buffer.from(JSON.stringify(message)), name, key }
    } catch (cause) {
      return unencodable(endpoint.shown, cause)
    }
  }

  async #dispose(): Promise<void> {
    const { runtime, timeout } = this.#settings
    const timer = runtime.setTimeout(() => this.#closing.abort(this.#calls.closedError()), timeout)
    try {
      await this.#calls.close()
    } finally {
      timer.cancel()
    }
  }
}

const comma = Buffer.from(',')

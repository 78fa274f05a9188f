import type { Runtime, Timer } from '@ackord/core'
import type { Overview } from '../api/types.ts'
import { tooMany } from '../http/api-failure.ts'
import { respond } from '../http/responses.ts'
import type { OverviewPoller } from './poller.ts'

const maxStreams = 200
/** Milliseconds. The browser then connects again, so that a user whose rights were withdrawn does not watch for ever. */
const maxLifetime = 10 * 60_000

const utf8 = new TextEncoder()

/** The streams of server-sent events, one per browser. Each round is written as text once, for all of them. */
export class EventStreams {
  readonly #poller: OverviewPoller
  readonly #runtime: Runtime
  readonly #open = new Set<EventStream>()
  #written: { readonly overview: Overview; readonly event: Uint8Array } | undefined

  constructor(poller: OverviewPoller, runtime: Runtime) {
    this.#poller = poller
    this.#runtime = runtime
  }

  open(client: AbortSignal): Response {
    if (this.#open.size >= maxStreams) throw tooMany(`There are ${maxStreams} open streams of events. Poll the overview instead.`)
    const stream = new EventStream(client, {
      watch: (show) => this.#poller.watch((overview) => show(this.#eventOf(overview))),
      first: async () => this.#eventOf(await this.#poller.look()),
      ended: () => void this.#open.delete(stream),
    })
    this.#open.add(stream)
    stream.start(this.#runtime)
    return respond(200, stream.body, {
      'content-type': 'text/event-stream; charset=utf-8',
      // Proxies and middleware that compress or buffer would hold events back.
      'cache-control': 'no-store, no-transform',
      'x-accel-buffering': 'no',
    })
  }

  close(): void {
    for (const stream of this.#open) stream.end()
  }

  #eventOf(overview: Overview): Uint8Array {
    if (this.#written?.overview !== overview)
      this.#written = { overview, event: utf8.encode(`event: overview\ndata: ${JSON.stringify(overview)}\n\n`) }
    return this.#written.event
  }
}

interface StreamSource {
  watch(show: (event: Uint8Array) => void): () => void
  first(): Promise<Uint8Array>
  ended(): void
}

/** One stream. Ends when the client disconnects or cancels it, after its lifetime, or with `end()`. */
class EventStream {
  readonly body: ReadableStream<Uint8Array>
  readonly #source: StreamSource
  readonly #client: AbortSignal
  /** `undefined` after the end. */
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined
  #unwatch: () => void = () => {}
  #timer: Timer | undefined
  #sent = false

  constructor(client: AbortSignal, source: StreamSource) {
    this.#source = source
    this.#client = client
    this.body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#controller = controller
      },
      cancel: () => this.#leave(),
    })
  }

  start(runtime: Runtime): void {
    if (this.#client.aborted) {
      this.end()
      return
    }
    this.#client.addEventListener('abort', this.end, { once: true })
    this.#timer = runtime.setTimeout(this.end, maxLifetime, { keepAlive: false })
    // A viewer from now on: the rounds must not end before the first event.
    this.#unwatch = this.#source.watch((event) => this.#send(event))
    void this.#source.first().then((event) => {
      if (!this.#sent) this.#send(event)
    })
  }

  readonly end = (): void => {
    const controller = this.#controller
    this.#leave()
    controller?.close()
  }

  /** Each event has all figures, so a client that reads slowly misses some instead of filling the memory. */
  #send(event: Uint8Array): void {
    if (this.#controller === undefined || (this.#controller.desiredSize ?? 0) <= 0) return
    this.#sent = true
    this.#controller.enqueue(event)
  }

  #leave(): void {
    this.#controller = undefined
    this.#client.removeEventListener('abort', this.end)
    this.#timer?.cancel()
    this.#unwatch()
    this.#source.ended()
  }
}

import type { ServerResponse } from 'node:http'
import type { StoredAnswer } from '@ackord/outbox'
import { answerTooLarge } from './answer-errors.ts'
import { type HeaderList, headersSince, toHeaderList } from './answer-headers.ts'
import { BoundedBytes } from './read-bounded.ts'

type Callback = (error?: Error | null) => void

/**
 * A response of Node that sends nothing: status, headers and body become an answer. What is not about sending goes to the real response, so that handlers, and what
 * Express adds to responses, work as usual. The writes of a handler that continues after its answer was given up are ignored.
 */
export class CapturedResponse<Response extends ServerResponse> {
  readonly response: Response
  /** Resolves when the response is ended. */
  readonly answer: Promise<StoredAnswer>
  /** Makes the answer reject. */
  readonly fail: (error: unknown) => void
  readonly #real: Response
  readonly #before: HeaderList
  readonly #body: BoundedBytes
  readonly #maxAnswerSize: number
  #started = false
  #ended = false
  #resolve: (answer: StoredAnswer) => void = () => {}

  /** `before`: the headers that are not part of the answer. */
  constructor(real: Response, before: HeaderList, maxAnswerSize: number) {
    this.#real = real
    this.#before = before
    this.#body = new BoundedBytes(maxAnswerSize)
    this.#maxAnswerSize = maxAnswerSize
    let fail: (error: unknown) => void = () => {}
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve
      fail = reject
    })
    this.fail = fail
    const own = this.#ownMembers()
    this.response = new Proxy(real, {
      get: (target, name, receiver) => (Object.hasOwn(own, name) ? Reflect.get(own, name) : Reflect.get(target, name, receiver)),
    })
  }

  /** Everything that sends, or that tells whether something was sent. */
  #ownMembers(): object {
    const capture = this
    return {
      get headersSent() {
        return capture.#started
      },
      get writableEnded() {
        return capture.#ended
      },
      get finished() {
        return capture.#ended
      },
      writeHead(status: number, ...more: readonly unknown[]) {
        capture.#writeHead(status, more.at(-1))
        return capture.response
      },
      flushHeaders() {
        capture.#started = true
      },
      write(chunk: unknown, ...more: readonly unknown[]) {
        const hasRoom = capture.#add(chunk, more)
        if (hasRoom) callbackOf(more)?.()
        // Without room there is never a `drain`: a stream that is too long stops here.
        return hasRoom
      },
      end(...given: readonly unknown[]) {
        const [chunk, ...more] = given
        if (typeof chunk !== 'function' && chunk !== undefined && chunk !== null) capture.#add(chunk, more)
        capture.#end()
        callbackOf(given)?.()
        return capture.response
      },
      destroy(error?: unknown) {
        capture.fail(error ?? new Error('The handler has destroyed the response.'))
        return capture.response
      },
    }
  }

  #writeHead(status: number, headers: unknown): void {
    this.#started = true
    this.#real.statusCode = status
    if (typeof headers !== 'object' || headers === null) return
    // An object, or an array in which names and values alternate.
    const pairs: [string, string | string[]][] = Array.isArray(headers)
      ? Array.from({ length: headers.length / 2 }, (_, index) => [headers[2 * index], headers[2 * index + 1]])
      : Object.entries(headers)
    for (const [name, value] of pairs) this.#real.setHeader(name, value)
  }

  /** `false` if the answer is too large. */
  #add(chunk: unknown, more: readonly unknown[]): boolean {
    if (this.#ended) return true
    this.#started = true
    // As in Node: what is not bytes is a text, in the encoding that may follow.
    const encoding = more.find((each) => typeof each === 'string') as BufferEncoding | undefined
    const bytes = chunk instanceof Uint8Array ? Buffer.from(chunk) : Buffer.from(String(chunk), encoding)
    if (this.#body.add(bytes)) return true
    this.fail(answerTooLarge(this.#maxAnswerSize))
    return false
  }

  #end(): void {
    if (this.#ended) return
    this.#started = true
    this.#ended = true
    const { statusCode: status } = this.#real
    this.#resolve({ status, headers: headersSince(this.#before, toHeaderList(this.#real.getHeaders())), body: this.#body.join() })
  }
}

function callbackOf(given: readonly unknown[]): Callback | undefined {
  const last = given.at(-1)
  return typeof last === 'function' ? (last as Callback) : undefined
}

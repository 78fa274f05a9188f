import type { RawMessage } from '@ackord/core'
import { type RecordingLogger, recordingLogger, VirtualRuntime } from '@ackord/testkit'
import { type SqsSourceOptions, sqsSource } from '../../src/index.ts'
import { FakeSqs } from './fake-sqs.ts'

/** A source that reads a fake queue in virtual time. */
export interface VirtualQueue extends AsyncDisposable {
  readonly runtime: VirtualRuntime
  readonly sqs: FakeSqs
  readonly logger: RecordingLogger
  /** The next message; time passes until it arrives. Fails after a virtual hour. */
  next(): Promise<RawMessage>
  /** Whether no further message arrives within so many milliseconds. */
  isQuiet(duration: number): Promise<boolean>
  /** Lets time pass until the promise has settled. Fails after a virtual minute. */
  settled<T>(promise: Promise<T>): Promise<T>
  /** Ends the iteration. */
  leave(): Promise<void>
}

export function openVirtualQueue({ fifo = false, ...options }: Partial<SqsSourceOptions> & { readonly fifo?: boolean } = {}): VirtualQueue {
  const runtime = new VirtualRuntime()
  const sqs = new FakeSqs(runtime, { fifo })
  const logger = recordingLogger()
  const source = sqsSource(sqs, { queue: fifo ? 'orders.fifo' : 'orders', runtime, logger, ...options })
  const messages = source.messages({ signal: new AbortController().signal })[Symbol.asyncIterator]()
  // Of a message that was waited for in vain.
  let pulled: Promise<IteratorResult<RawMessage>> | undefined

  async function within<T>(limit: number, promise: Promise<T>): Promise<T> {
    let isSettled = false
    const settled = () => {
      isSettled = true
    }
    promise.then(settled, settled)
    const end = runtime.monotonic() + limit
    await runtime.advance(0)
    while (!isSettled && runtime.monotonic() < end) await runtime.advance(Math.min(runtime.nextTimer ?? limit, 1000))
    if (!isSettled) throw new Error(`Nothing happened within ${limit} ms.`)
    return await promise
  }

  const settled = <T>(promise: Promise<T>) => within(60_000, promise)
  return {
    runtime,
    sqs,
    logger,
    settled,
    async next() {
      pulled ??= messages.next()
      const { done, value } = await within(3_600_000, pulled)
      pulled = undefined
      if (done === true) throw new Error('The iteration has ended.')
      return value
    },
    async isQuiet(duration) {
      let isQuiet = true
      pulled ??= messages.next()
      void pulled.then(() => {
        isQuiet = false
      })
      await runtime.advance(duration)
      return isQuiet
    },
    async leave() {
      await settled(Promise.resolve(messages.return?.()))
    },
    async [Symbol.asyncDispose]() {
      await settled(source.close())
    },
  }
}

const utf8 = new TextDecoder()

/** The body of a message that was stored with `add()`. */
export function bodyOf(message: RawMessage): string {
  return utf8.decode(message.data as Uint8Array)
}

import { deferred, startFaultProxy } from '@ackord/testkit'

export interface Tripwire extends AsyncDisposable {
  readonly url: string
  /** Resolves when this many chunks have arrived from clients. From then on nothing gets through. */
  readonly reached: Promise<void>
  /** Lets everything through again, including the chunks that were held. */
  release(): void
}

/** A proxy before a server that stops a client in the middle of its work: at any chunk that it sends. */
export async function startTripwire(target: string, at: number): Promise<Tripwire> {
  const reached = deferred()
  const released = deferred()
  let count = 0
  const proxy = await startFaultProxy(target, () => {
    count += 1
    if (count < at) return 'pass'
    reached.resolve()
    return { held: released.promise }
  })
  return {
    url: proxy.url,
    reached: reached.promise,
    release() {
      proxy.judge()
      released.resolve()
    },
    [Symbol.asyncDispose]: () => proxy[Symbol.asyncDispose](),
  }
}

import { deferred, startFaultProxy } from '@ackord/testkit'

export interface Tripwire extends AsyncDisposable {
  readonly url: string
  /** Resolves when this many chunks have arrived from clients. From then on all data is held. */
  readonly reached: Promise<void>
  /** Forwards everything again, including the held chunks. */
  release(): void
}

/** A proxy that stops a client in the middle of its work, at any chunk that it sends. */
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

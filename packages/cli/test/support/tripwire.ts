import { deferred, startFaultProxy } from '@ackord/testkit'

export interface Tripwire extends AsyncDisposable {
  readonly url: string
  /** Resolves when so many pieces have come from clients. From then on nothing more gets through. */
  readonly reached: Promise<void>
  /** All gets through again, with what was held. */
  release(): void
}

/** Stands before a server, and stops a client in the middle of what it does: at any piece that it sends. */
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

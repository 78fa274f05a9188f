import assert from 'node:assert/strict'
import { memoryRateLimiter, type RateGrant, type RateLimiter, type RateRequest } from '@ackord/core'
import { VirtualRuntime } from '../../helpers/virtual-runtime.ts'
import type { Scenario } from '../../run/scenario.ts'

/** Separate buckets for one scenario, initially none. Disposing it removes everything it created. */
export interface RateWorld extends AsyncDisposable {
  readonly limiter: RateLimiter
  /** The limiter of another process, on the same buckets: with its own connections, if there are connections. */
  another(): Promise<RateLimiter>
  /** Lets time pass for the buckets: a store with its own clock really waits. At most half a second in a scenario. */
  elapse(duration: number): Promise<void>
}

export type OpenRateWorld = () => Promise<RateWorld>
export type RateScenario = Scenario<OpenRateWorld>

/** The in-memory limiter with a virtual clock: an example for other worlds. */
export async function openMemoryRateWorld(): Promise<RateWorld> {
  const runtime = new VirtualRuntime()
  const limiter = memoryRateLimiter({ runtime })
  return {
    limiter,
    another: async () => limiter,
    elapse: (duration) => runtime.advance(duration),
    [Symbol.asyncDispose]: async () => {},
  }
}

const never = new AbortController().signal

/** Ten permits per hour: none are added while a scenario runs. */
export function request(request: Partial<RateRequest> = {}): RateRequest {
  return { key: 'tenant', limit: 10, interval: 3_600_000, burst: 10, wanted: 1, returned: 0, ...request }
}

export async function take({ take }: RateLimiter, ...requests: readonly RateRequest[]): Promise<readonly RateGrant[]> {
  const grants = await take(requests, { signal: never })
  assert.equal(grants.length, requests.length, 'there must be a grant for each request')
  for (const [index, { granted, retryAfter }] of grants.entries()) {
    const { wanted = 0 } = requests[index] ?? {}
    assert.ok(Number.isInteger(granted) && granted >= 0 && granted <= wanted, `granted ${granted} of ${wanted} permits`)
    assert.ok(
      granted === wanted ? retryAfter === 0 : retryAfter >= 1,
      `granted ${granted} of ${wanted} permits, with retryAfter ${retryAfter}`,
    )
  }
  return grants
}

/** The permits granted to each request. */
export async function granted(limiter: RateLimiter, ...requests: readonly RateRequest[]): Promise<readonly number[]> {
  return (await take(limiter, ...requests)).map((grant) => grant.granted)
}

import { memoryRateLimiter } from '../../src/fairness/memory-rate-limiter.ts'
import type { RateGrant, RateLimiter, RateRequest } from '../../src/fairness/rate-limiter.ts'
import type { RawMessage } from '../../src/message/message.ts'
import type { Runtime } from '../../src/ports/runtime.ts'
import { type Tracked, tracked } from '../support/router-world.ts'

/** Messages whose subject is their tenant, with ids such as `a1`. */
export function ofTenants(tenants: string): Tracked[] {
  const counts = new Map<string, number>()
  return [...tenants].map((subject) => {
    const count = (counts.get(subject) ?? 0) + 1
    counts.set(subject, count)
    return tracked(`${subject}${count}`, { attributes: { subject } })
  })
}

/** The same, as raw messages for a broker. */
export function rawOfTenant(subject: string, count: number): RawMessage[] {
  return Array.from({ length: count }, (_, index) => tracked(`${subject}${index + 1}`, { attributes: { subject } }).message)
}

/** A limiter that counts its calls, and fails or hangs as a test wants. */
export class TestLimiter implements RateLimiter {
  readonly calls: (readonly RateRequest[])[] = []
  mode: 'works' | 'fails' | 'hangs' | 'nonsense' = 'works'
  readonly #real: RateLimiter

  constructor(runtime: Runtime) {
    this.#real = memoryRateLimiter({ runtime })
  }

  async take(requests: readonly RateRequest[], options: { readonly signal: AbortSignal }): Promise<readonly RateGrant[]> {
    this.calls.push(requests)
    if (this.mode === 'fails') throw new Error('no connection')
    if (this.mode === 'hangs') return await new Promise(() => {})
    if (this.mode === 'nonsense') return requests.map(({ wanted }) => ({ granted: wanted + 1, retryAfter: 0 }))
    return await this.#real.take(requests, options)
  }
}

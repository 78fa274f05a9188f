import { memoryRateLimiter } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { VirtualRuntime } from '../../src/helpers/virtual-runtime.ts'
import { openMemoryRateWorld } from '../../src/suites/rates/rate-world.ts'
import { testRateLimiter } from '../../src/suites/rates/test-rate-limiter.ts'

testRateLimiter({ describe, it }, { name: 'memoryRateLimiter()', open: openMemoryRateWorld })

describe('memoryRateLimiter()', () => {
  it('rejects unknown options', () => {
    expect(() => memoryRateLimiter({ burst: 1 } as object)).toThrow(expect.objectContaining({ code: 'ACKORD_INVALID_OPTION' }))
  })

  it('keeps the permits of a key while it forgets thousands of full ones', async () => {
    const runtime = new VirtualRuntime()
    const limiter = memoryRateLimiter({ runtime })
    const options = { signal: new AbortController().signal }
    const request = { key: 'slow', limit: 10, interval: 3_600_000, burst: 10, wanted: 10, returned: 0 }
    await limiter.take([request], options)
    for (let index = 0; index < 5000; index += 1) {
      await limiter.take([{ ...request, key: `fast ${index}`, limit: 1000, interval: 1000 }], options)
      if (index % 100 === 0) await runtime.advance(20)
    }
    expect(await limiter.take([request], options)).toMatchObject([{ granted: 0 }])
  })
})

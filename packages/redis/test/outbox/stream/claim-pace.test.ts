import { systemRuntime } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { ClaimPace } from '../../../src/outbox/claim-pace.ts'

const megabyte = 1024 * 1024

function paceWorld() {
  const pace = new ClaimPace(systemRuntime)
  return {
    limit: () => pace.limit(16 * megabyte),
    /** A call for a share of the claim's byte limit, whose answer contains `bytes` bytes. */
    async answered(bytes: number, claimBytes: number, maxBytes = claimBytes) {
      await pace.ask('a', { lease: 1000, claimBytes, maxBytes, send: async () => null, bytesOf: () => bytes, release: async () => {} })
    },
    async late(claimBytes: number) {
      let settled: Promise<void> | undefined
      const asking = pace.ask('a', {
        lease: 1000,
        claimBytes,
        maxBytes: claimBytes,
        async send(onLate) {
          const answer = Promise.resolve(null)
          onLate(answer)
          settled = answer.then(() => {})
          throw new Error('no answer in time')
        },
        bytesOf: () => 0,
        release: async () => {},
      })
      await expect(asking).rejects.toThrow('no answer in time')
      await settled
      // The records of the late answer are released by now.
      await new Promise(setImmediate)
    },
  }
}

describe('the bytes that claims ask for after late answers', () => {
  it('are not raised by empty answers', async () => {
    const { limit, late, answered } = paceWorld()
    await late(limit())
    await late(limit())
    expect(limit()).toBe(4 * megabyte)
    for (let step = 0; step < 10; step += 1) await answered(0, limit())
    await answered(1000, limit())
    expect(limit()).toBe(4 * megabyte)
  })

  it('are doubled once per claim, however many of its calls were full', async () => {
    const { limit, late, answered } = paceWorld()
    await late(limit())
    await late(limit())
    const claimBytes = limit()
    for (let share = 0; share < 4; share += 1) await answered(0.9 * megabyte, claimBytes, claimBytes / 4)
    expect(limit()).toBe(2 * claimBytes)
    await answered(limit(), limit())
    await answered(limit(), limit())
    expect(limit()).toBe(16 * megabyte)
  })
})

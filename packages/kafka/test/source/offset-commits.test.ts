import { VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { OffsetCommits } from '../../src/source/offset-commits.ts'

const place = { topic: 'orders', partition: 0 }

function openCommits(answers: (Error | undefined)[], interval = 0) {
  const runtime = new VirtualRuntime()
  const committed: string[] = []
  const state = { offset: 1n, asked: 0 }
  const commits: OffsetCommits = new OffsetCommits({
    interval,
    runtime,
    positions: () => [{ ...place, offset: state.offset }],
    async commit([first]) {
      state.asked += 1
      const answer = answers.shift()
      if (answer !== undefined) throw answer
      committed.push(first?.offset ?? '')
    },
    onFailure: () => commits.changedAfterFailure(),
  })
  return { runtime, commits, committed, state }
}

describe('commits of offsets', () => {
  it('that are refused are retried after a pause, also without an interval', async () => {
    const { runtime, commits, committed, state } = openCommits([new Error('REBALANCE_IN_PROGRESS')])

    commits.changed()
    await runtime.advance(1)
    expect(state.asked).toBe(1)
    await runtime.advance(98)
    expect(state.asked).toBe(1)
    await runtime.advance(2)

    expect(committed).toEqual(['1'])
  })

  it('at the end continue until everything is committed, also messages that are settled meanwhile', async () => {
    const { runtime, commits, committed, state } = openCommits([undefined, new Error('REBALANCE_IN_PROGRESS')])

    const drained = commits.drain()
    state.offset = 2n
    await runtime.advance(300)
    await drained

    expect(committed.at(-1)).toBe('2')
  })

  it('at the end are abandoned when they are refused repeatedly', async () => {
    const refusal = new Error('UNKNOWN_MEMBER_ID')
    const { runtime, commits, committed } = openCommits(Array.from({ length: 50 }, () => refusal))

    const drained = commits.drain()
    await runtime.advance(1000)
    await drained

    expect(committed).toEqual([])
  })
})

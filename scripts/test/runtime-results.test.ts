import { describe, expect, it } from 'vitest'
import { judgeResults, readResults } from '../package-tests/runtime-results.mjs'

const passed = { part: 'redis', suite: 'inbox', check: 'handles once', milliseconds: 1 }
const failed = { ...passed, check: 'handles twice', error: 'Error: lost' }
const known = { runtime: 'Bun' as const, suite: 'inbox', check: 'handles twice', reason: 'no such function' }

function problemsOf(...parameters: Parameters<typeof judgeResults>): readonly string[] {
  return judgeResults(...parameters).flatMap(({ problems }) => problems)
}

describe('results on Bun and Deno', () => {
  it('accept a failure only if it is a known one', () => {
    expect(problemsOf([passed], [])).toEqual([])
    expect(problemsOf([passed, failed], [known])).toEqual([])
    expect(problemsOf([passed, failed], [])).toEqual(['handles twice:\nError: lost'])
    expect(problemsOf([passed, failed], [{ ...known, suite: 'outbox' }])).toHaveLength(2)
  })

  it('fail if a known failure passes, or is not there', () => {
    const untrue = ['handles twice: does not fail, but is listed as a known failure (no such function).']
    expect(problemsOf([passed, { ...passed, check: 'handles twice' }], [known])).toEqual(untrue)
    expect(problemsOf([passed], [known])).toEqual(untrue)
    expect(problemsOf([], [known])).toEqual(untrue)
  })

  it('fail if a part of the program has printed no result', () => {
    const ends = { ...passed, part: 'process' }
    const output = `a warning\n${JSON.stringify(passed)}\n${JSON.stringify(ends)}\n`
    expect(readResults(output, ['redis'])).toEqual([passed, ends])
    expect(() => readResults(output, ['redis', 'nats'])).toThrow('no result of nats')
    expect(() => readResults(JSON.stringify(passed), ['redis'])).toThrow('no result of process')
  })
})

import { describe, expect, it } from 'vitest'
import { addToHistory, maxHistoryLength, readHistory } from '../../src/store/failure-text.ts'

const at = 1_780_000_000_000

describe('the history of a record', () => {
  it('is read as it was written, the latest error first', () => {
    const text = addToHistory(addToHistory(undefined, at, 'first'), at + 1000, 'second')
    expect(readHistory(text)).toEqual([
      { at: at + 1000, error: 'second' },
      { at, error: 'first' },
    ])
    expect(readHistory(undefined)).toEqual([])
    expect(readHistory('')).toEqual([])
  })

  it('keeps ten errors of any length, each on one line', () => {
    let text: string | undefined
    for (let index = 0; index < 30; index += 1) text = addToHistory(text, at + index, `${index}\n${'x'.repeat(5000)}`)
    expect(text?.length).toBeLessThanOrEqual(maxHistoryLength)
    const errors = readHistory(text)
    expect(errors.length).toBeGreaterThanOrEqual(9)
    expect(errors.map((one) => one.at)).toEqual(errors.map((_, index) => at + 29 - index))
    expect(errors[0]?.error).toMatch(/^29 x+$/)
  })

  it('of short errors has the last ten', () => {
    let text: string | undefined
    for (let index = 0; index < 30; index += 1) text = addToHistory(text, at + index, `error ${index}`)
    expect(readHistory(text).map(({ error }) => error)).toEqual(Array.from({ length: 10 }, (_, index) => `error ${29 - index}`))
  })

  it('does not take the rest of a line that was cut for an error', () => {
    const cut = `${'y'.repeat(100)}\n${at} whole`.padStart(maxHistoryLength, 'y')
    expect(readHistory(cut)).toEqual([{ at, error: 'whole' }])
  })
})

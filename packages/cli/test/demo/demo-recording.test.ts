import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { capture } from '../../../../scripts/site/capture.mjs'
import { printedLines, recordedLines } from '../../../../scripts/site/recording.mjs'
import { emptyDirectory } from '../support/ackord.ts'
import { bundleMain, main } from '../support/bundle-main.ts'

beforeAll(bundleMain)

/** The text without what differs from run to run, and from width to width. */
const essence = (lines: readonly string[]) => lines.join('').replaceAll(/\s/g, '').replaceAll(/\d+/g, '#')

describe('the recording of the demo', () => {
  const svg = readFileSync(new URL('../../../../docs/public/demo.svg', import.meta.url), 'utf8')

  it('has the text that the demo prints today (node scripts/record-demo.mjs)', async () => {
    const columns = 84
    const chunks = await capture(`'${process.execPath}' '${main}' demo`, { cwd: emptyDirectory(), columns })
    const printed = essence(printedLines(chunks, columns))
    expect(printed).toMatch(/#lost,#appliedtwice/)
    // Before it, the recording has the prompt and what make prints.
    const recorded = essence(recordedLines(svg))
    expect(recorded.slice(-printed.length)).toBe(printed)
    expect(recorded).toMatch(/^\$makedemo/)
  })

  it('is small', () => {
    expect(Buffer.byteLength(svg)).toBeLessThanOrEqual(60_000)
  })
})

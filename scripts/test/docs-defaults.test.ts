import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { collectOptions, renderDefaults } from '../docs-defaults.mjs'
import { root } from './docs-blocks.ts'

const units: Readonly<Record<string, number>> = {
  millisecond: 1,
  second: 1000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  MB: 1024 * 1024,
}

/** The value at the beginning of a doc comment's default: `30,000`, `7 days`, `'oldest'`, `true`. `undefined` if it is a description. */
function saidValue(says: string): unknown {
  const [, digits, unit] = /^(\d[\d,]*(?:\.\d+)?)(?: (millisecond|second|minute|hour|day|MB)s?)?(?![\w×])/.exec(says) ?? []
  if (digits !== undefined) return Number(digits.replaceAll(',', '')) * (unit === undefined ? 1 : (units[unit] ?? Number.NaN))
  const [, word] = /^(true|false|Infinity)\b/.exec(says) ?? []
  if (word !== undefined) return word === 'Infinity' ? Infinity : word === 'true'
  return /^[`']+([^`']+)[`']+/.exec(says)?.[1]
}

describe('the defaults', () => {
  let options: ReturnType<typeof collectOptions>

  beforeAll(() => {
    options = collectOptions()
  }, 120_000)

  it('are in docs/defaults.md as the doc comments have them (`node scripts/docs-defaults.mjs` writes it)', () => {
    expect(options.length).toBeGreaterThan(300)
    expect(readFileSync(`${root}docs/defaults.md`, 'utf8')).toBe(renderDefaults(options))
  })

  it('are in the code as the doc comments have them', () => {
    expect(['30,000.', '7 days. Longer.', "'oldest'.", '0.2.', 'as many as the router.'].map(saidValue)).toEqual([
      30_000,
      604_800_000,
      'oldest',
      0.2,
      undefined,
    ])
    const comparable = options.filter(({ says, value }) => value !== undefined && says !== undefined && saidValue(says) !== undefined)
    expect(comparable.length).toBeGreaterThan(130)
    const wrong = comparable.filter(({ says = '', value }) => saidValue(says) !== value)
    expect(wrong.map(({ options: of, name, says, value }) => `${of}.${name}: the comment says ${says}, the code ${value}`)).toEqual([])
  })
})

import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { formatTable, type ResultRow } from '@ackord/testkit/suites'
import { describe, expect, it } from 'vitest'
import { readResults } from '../guarantees.mjs'
import { renderPage } from '../guarantees-page.mjs'
import { promise } from '../guarantees-promise.mjs'
import { findTables, mergeResults, noResults, type Results } from '../guarantees-results.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (file: string) => readFileSync(root + file, 'utf8')

describe('docs/guarantees.md', () => {
  it('has every sentence of the promise in README.md', () => {
    const [, quoted = ''] = /## Guarantees\n\n((?:> .+\n)+)/.exec(read('README.md')) ?? []
    const sentences = quoted
      .replaceAll(/[>\s]+/g, ' ')
      .trim()
      .split(/(?<=\.) /)
    expect(sentences.length).toBeGreaterThan(2)
    const known = promise.map(({ text }) => text)
    expect(sentences.filter((sentence) => !known.includes(sentence))).toEqual([])
  })

  it.each(promise.flatMap(({ text, tests }) => tests.map((test) => ({ text, ...test }))))(
    'names a test that exists: $title',
    ({ file, title }) => {
      expect(existsSync(root + file), file).toBe(true)
      expect(read(file)).toContain(title)
    },
  )

  it('is identical to the output of the script: it was not edited manually', () => {
    expect(read('docs/guarantees.md')).toBe(renderPage(readResults()))
  })

  it('has no failed cell, and the crash points of every store', () => {
    const { tables } = readResults()
    const cells = Object.entries(tables).flatMap(([name, columns]) =>
      Object.entries(columns).flatMap(([on, column]) =>
        Object.entries(column.cells).map(([scenario, cell]) => ({ name, on, scenario, cell })),
      ),
    )
    expect(cells.filter(({ cell }) => !cell.startsWith('passed'))).toEqual([])
    expect(Object.keys(tables['crash points'] ?? {}).toSorted()).toEqual([
      'MariaDB (mysql2) and RabbitMQ',
      'PostgreSQL (pg) and RabbitMQ',
      'Redis (Lua outbox) and RabbitMQ',
      'Redis (ioredis, exclusive) and RabbitMQ',
      'Redis (ioredis, optimistic) and RabbitMQ',
      'SQLite and RabbitMQ',
    ])
  })
})

describe('the results', () => {
  const row = (implementation: string, scenario: string, result: ResultRow['result'], note?: string): ResultRow => ({
    suite: 'crash points',
    implementation,
    scenario,
    result,
    note,
  })
  const run = (version: string) => ({ node: '20.0.0', servers: { PostgreSQL: version } })

  function added(before: Results, at: string, text: string, figures = {}): Results {
    return mergeResults(before, { at, run: run(at.slice(0, 4)), tables: findTables(text), figures })
  }

  it('are parsed from the output of a suite, among other lines and colours', () => {
    const table = formatTable([row('one', 'a|b', 'passed', '2 duplicates'), row('one', 'c', 'failed'), row('two', 'c', 'passed')])
    const text = `\u001b[32mstdout | some.test.ts\u001b[39m\n${table}\nmore\n| no table |\n${formatTable([{ ...row('x', 'y', 'passed'), suite: 'other' }])}`
    expect(findTables(text)).toEqual([
      {
        name: 'crash points',
        implementations: ['one', 'two'],
        rows: [
          { scenario: 'a|b', cells: ['passed (2 duplicates)', '–'] },
          { scenario: 'c', cells: ['failed', 'passed'] },
        ],
      },
      { name: 'other', implementations: ['x'], rows: [{ scenario: 'y', cells: ['passed'] }] },
    ])
    expect(findTables('nothing\n')).toEqual([])
  })

  it('of a partial run replace their own columns, and keep the others with their dates', () => {
    const first = added(noResults, '2026-01-01T00:00:00.000Z', formatTable([row('one', 'a', 'failed'), row('two', 'a', 'passed')]), {
      load: { rate: 5 },
    })
    const second = added(first, '2027-01-01T00:00:00.000Z', formatTable([row('one', 'b', 'passed')]))
    expect(second.tables['crash points']).toEqual({
      one: { run: '2027-01-01T00:00:00.000Z', cells: { b: 'passed' } },
      two: { run: '2026-01-01T00:00:00.000Z', cells: { a: 'passed' } },
    })
    expect(second.figures).toEqual({ load: { run: '2026-01-01T00:00:00.000Z', values: { rate: 5 } } })
    expect(Object.keys(second.runs)).toHaveLength(2)
    const third = added(second, '2028-01-01T00:00:00.000Z', formatTable([row('two', 'a', 'passed')]), { load: { rate: 6 } })
    expect(Object.keys(third.runs)).toEqual(['2027-01-01T00:00:00.000Z', '2028-01-01T00:00:00.000Z'])
    expect(Object.keys(noResults.tables)).toEqual([])
  })

  it('of two files of one run that print the same column are one column', () => {
    const at = '2026-01-01T00:00:00.000Z'
    const text = `${formatTable([row('one', 'a', 'passed')])}\n${formatTable([row('one', 'b', 'passed')])}`
    expect(added(noResults, at, text).tables['crash points']).toEqual({ one: { run: at, cells: { a: 'passed', b: 'passed' } } })
  })

  it('have figures of several things in a table of their own, and several of one thing in one cell', () => {
    const figures = { load: { rss_mb: { end: [1, 2.5] }, mutants: [{ name: 'a', first_seed: 3 }, { name: 'b' }] } }
    const page = renderPage(added(noResults, '2026-01-02T03:04:05.000Z', '', figures))
    expect(page).toContain('| rss mb, end | 1, 2.5 |')
    expect(page).toContain('Mutants:\n\n| name | first seed |\n| --- | --- |\n| a | 3 |\n| b | – |\n')
    expect(page).not.toContain('| mutants')
  })

  it('are shown with their dates, versions and failures', () => {
    const text = formatTable([row('one', 'a|b', 'failed'), row('two', 'c', 'passed')])
    const page = renderPage(added(noResults, '2026-01-02T03:04:05.000Z', text, { load: { peak: { per_second: 5000 } } }))
    expect(page).toContain('| [crash points](#crash-points) | one | 0 passed, 1 failed | 2026-01-02 |')
    expect(page).toContain('| crash points | one | two |\n| --- | --- | --- |\n| a\\|b | failed | – |\n| c | – | passed |\n')
    expect(page).toContain('| peak, per second | 5000 |')
    expect(page).toContain('| 2026-01-02 03:04 UTC | Node 20.0.0 | PostgreSQL 2026 |')
    expect(renderPage(noResults)).toContain('There are none yet')
  })
})

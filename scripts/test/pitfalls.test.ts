import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const page = readFileSync(`${root}docs/pitfalls.md`, 'utf8')
const number = String.raw`([A-Z]?\d+(?:\.\d+)?)`
const rows = [...page.matchAll(new RegExp(`^\\| ${number} \\| (.+?) \\| \`(.+?)\`: (.+?) \\|$`, 'gm'))].map(
  ([, id = '', , file = '', title = '']) => ({ id, file, title }),
)
/** The pitfalls for which the page explains why no test is named. */
const explained = [...page.matchAll(new RegExp(`^\\| ${number} \\| [^|]+ \\|$`, 'gm'))].map(([, id = '']) => id)

const upTo = (last: number, prefix = '') => Array.from({ length: last }, (_, index) => `${prefix}${index + 1}`)
const parts = {
  'the core': upTo(13, 'P'),
  'transaction, inbox and outbox on SQL': upTo(34, 'A'),
  'transaction, inbox, outbox and streams on Redis': upTo(30, 'B'),
  'what concerns all of it': upTo(8, 'C'),
  'what users of comparable systems report': upTo(30),
  'bugs seen in comparable systems': upTo(6, '6.'),
  'bugs seen in Node libraries': upTo(11, 'N'),
  'what attacks on this library found': [1, 3, 4, 5, 6, 13, 14, 16, 18, 23, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 37, 40].map(
    (found) => `D${found}`,
  ),
}

/** `sql/x.test.ts` is a test of that package; other names are scenarios of the testkit, which are in its sources. */
function fileOf(name: string): string {
  const [, owner = '', path = ''] = /^(\w+)\/(.+)$/.exec(name) ?? []
  const folder = owner === 'scripts' ? 'scripts' : `packages/${owner}`
  const test = `${root}${folder}/test/${path}`
  return existsSync(test) ? test : `${root}${folder}/src/${path}`
}

describe('docs/pitfalls.md', () => {
  it.each(Object.entries(parts))('has a row for every pitfall of %s, or says why there is none', (_, ids) => {
    const known = new Set([...rows.map(({ id }) => id), ...explained])
    expect(ids.filter((id) => !known.has(id))).toEqual([])
  })

  it('has no row that this test does not check', () => {
    expect(rows.length + explained.length).toBe(page.split('\n').filter((line) => /^\| [A-Z]?\d/.test(line)).length)
    const ids = new Set(Object.values(parts).flat())
    expect([...rows.map(({ id }) => id), ...explained].filter((id) => !ids.has(id))).toEqual([])
  })

  it.each(rows)('$id names a test that exists: $title', ({ file, title }) => {
    expect(readFileSync(fileOf(file), 'utf8')).toContain(title)
  })
})

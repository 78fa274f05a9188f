import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../../../../..', import.meta.url))
const page = readFileSync(`${root}/docs/guides/redis-lua-outbox.md`, 'utf8')
const rows = [...page.matchAll(/^\| ([RE]\d+) \| (.+?) \| `(.+?)`: (.+?) \|$/gm)].map(([, id = '', , file = '', title = '']) => ({
  id,
  file,
  title,
}))

/** `redis/x.test.ts` is a test of that package; other names are scenarios of the testkit, which are in its sources. */
function fileOf(name: string): string {
  const [, owner = '', path = ''] = /^(\w+)\/(.+)$/.exec(name) ?? []
  const test = `${root}/packages/${owner}/test/${path}`
  return existsSync(test) ? test : `${root}/packages/${owner}/src/${path}`
}

describe('docs/guides/redis-lua-outbox.md', () => {
  it('has a row for every requirement on the store', () => {
    const numbers = Array.from({ length: 49 }, (_, index) => index + 1)
    const known = new Set(rows.map(({ id }) => id))
    expect(numbers.map((number) => `R${number}`).filter((id) => !known.has(id))).toEqual([])
  })

  it('has no row that the pattern does not match', () => {
    expect(rows.length).toBe(page.split('\n').filter((line) => /^\| [RE]\d/.test(line)).length)
  })

  it.each(rows)('$id names a test that exists: $title', ({ file, title }) => {
    expect(readFileSync(fileOf(file), 'utf8').replaceAll("\\'", "'")).toContain(title)
  })
})

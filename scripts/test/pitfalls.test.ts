import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const page = readFileSync(`${root}docs/pitfalls.md`, 'utf8')
const rows = [...page.matchAll(/^\| ([A-Z]?\d+) \| (.+?) \| `(.+?)`: (.+?) \|$/gm)].map(([, id = '', , file = '', title = '']) => ({
  id,
  file,
  title,
}))

describe('docs/pitfalls.md', () => {
  it('has a row for every pitfall of the core', () => {
    const ids = new Set(rows.map(({ id }) => id))
    const core = Array.from({ length: 13 }, (_, index) => `P${index + 1}`)
    expect(core.filter((id) => !ids.has(id))).toEqual([])
    expect(rows.length).toBe(page.split('\n').filter((line) => /^\| [A-Z]?\d/.test(line)).length)
  })

  it.each(rows)('$id names a test that exists: $title', ({ file, title }) => {
    const titles = readFileSync(`${root}packages/core/test/${file}`, 'utf8')
    expect(titles).toContain(title)
  })
})

import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { root } from './docs-blocks.ts'

const page = readFileSync(`${root}ARCHITECTURE.md`, 'utf8')
/** The numbered steps below each heading that ends in "file by file". */
const walks = page
  .split(/^### /m)
  .filter((section) => /^.*, file by file\n/.test(section))
  .map((section) => ({ title: section.split('\n', 1)[0] as string, stations: section.split('\n').filter((line) => /^\d+\. /.test(line)) }))

describe('ARCHITECTURE.md', () => {
  it('walks a message through PostgreSQL and through Redis', () => {
    expect(walks.map(({ title }) => title)).toEqual([
      'From RabbitMQ through PostgreSQL to RabbitMQ, file by file',
      'From a Redis stream through Redis to a Redis stream, file by file',
    ])
  })

  it.each(walks)('names at most 25 stations: $title', ({ stations }) => {
    expect(stations.length).toBeGreaterThan(10)
    expect(stations.length).toBeLessThanOrEqual(25)
  })

  it.each(walks)('names files that exist: $title', ({ stations }) => {
    const files = stations.flatMap((station) =>
      [...station.matchAll(/`([\w-]+)\/([\w./-]+\.ts)`/g)].map(([, name, path]) => `packages/${name}/src/${path}`),
    )
    expect(files.length).toBeGreaterThanOrEqual(stations.length)
    expect(files.filter((file) => !existsSync(root + file))).toEqual([])
  })
})

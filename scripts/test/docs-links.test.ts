import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { anchorsOf, pages, replaceLinks, slugOf, targetOf } from '../docs-links.mjs'
import { root } from './docs-blocks.ts'

const files = ['README.md', ...pages().map(({ file }) => file)]

/** The links of a document whose target does not exist in the repository. */
function deadLinks(file: string, markdown: string): string[] {
  const dead: string[] = []
  replaceLinks(markdown, (href) => {
    const target = targetOf(file, href)
    if (target === undefined) return href
    const { path, anchor } = target
    if (!existsSync(root + path)) dead.push(`${href}: there is no ${path}`)
    else if (anchor !== undefined && path.endsWith('.md') && !anchorsOf(readFileSync(root + path, 'utf8')).includes(anchor)) {
      dead.push(`${href}: ${path} has no such heading`)
    }
    return href
  })
  return dead
}

describe('the links of the documents', () => {
  it('are found, and those in code are not', () => {
    const markdown =
      '[a](nowhere.md) `[b](nowhere.md)` [c](errors.md#nowhere) [d](https://example.org)\n```ts\n[e](nowhere.md)\n```\n[`f`](gone.md)'
    expect(deadLinks('docs/x.md', markdown)).toEqual([
      'nowhere.md: there is no docs/nowhere.md',
      'errors.md#nowhere: docs/errors.md has no such heading',
      'gone.md: there is no docs/gone.md',
    ])
  })

  it('go to headings as GitHub names them', () => {
    expect(['What happens when…', 'ACKORD_NO_HANDLER', 'The `outbox`, and [why](x.md)', 'Soon: hot path'].map(slugOf)).toEqual([
      'what-happens-when',
      'ackord_no_handler',
      'the-outbox-and-why',
      'soon-hot-path',
    ])
  })

  it.each(files)('lead somewhere: %s', (file) => {
    expect(deadLinks(file, readFileSync(root + file, 'utf8'))).toEqual([])
  })
})

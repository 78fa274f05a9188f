import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { errorCodes } from '../../packages/core/src/index.ts'
import { documents, root, typescriptBlocks } from './docs-blocks.ts'

const sources = readdirSync(`${root}packages`)
  .flatMap((name) =>
    readdirSync(`${root}packages/${name}/src`, { recursive: true, encoding: 'utf8' }).map((file) => `packages/${name}/src/${file}`),
  )
  .filter((file) => file.endsWith('.ts'))
  .map((file) => readFileSync(root + file, 'utf8'))
  .join('\n')

/** Includes names that are assembled: `ackord.outbox.${what}_duration`. */
const metrics = new Set([
  ...[...sources.matchAll(/['"`](ackord(?:\.[a-z_]+)+)/g)].map(([, name = '']) => name),
  ...['claim', 'publish', 'settle'].map((what) => `ackord.outbox.${what}_duration`),
])

const spansOf = (document: string) => [...readFileSync(root + document, 'utf8').matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code)

/** A whole sentence in a code span is a log line, or its beginning. */
const isLogLine = (span: string) => /^[A-Z][a-z]* (?:\w+[ ,:;]+){2,}.*[.…]$/.test(span)

describe.each(documents)('%s', (document) => {
  it('names error codes that exist', () => {
    const text = readFileSync(root + document, 'utf8')
    const named = [...text.matchAll(/\bACKORD_[A-Z]+(?:_[A-Z]+)*\b/g)].map(([code]) => code)
    const variables = /^ACKORD_(?:STORE|BROKER|BATCH_SIZE|PROOF|SEED|\w*SIMULATION\w*)$/
    expect(named.filter((code) => !(errorCodes as readonly string[]).includes(code) && !variables.test(code))).toEqual([])
  })

  it('names metrics that exist', () => {
    const named = spansOf(document).flatMap((span) => /^(ackord(?:\.[a-z_]+)+)(?:\{.*\})?$/.exec(span)?.[1] ?? [])
    expect(named.filter((name) => !metrics.has(name) && !name.startsWith('ackord.config'))).toEqual([])
  })

  it('quotes log lines as they are', () => {
    expect(spansOf(document).filter((span) => isLogLine(span) && !sources.includes(span.replace(/…$/, '').trim()))).toEqual([])
  })
})

describe('the check of log lines', () => {
  it('finds log lines', () => {
    expect(spansOf('docs/what-happens-when.md').filter(isLogLine).length).toBeGreaterThan(12)
    expect(isLogLine('A destination is up again.')).toBe(true)
    expect(isLogLine('SELECT … FOR UPDATE')).toBe(false)
  })
})

describe('a whole service takes at most 60 lines', () => {
  const services = documents
    .filter((document) => document.startsWith('docs/start/'))
    .flatMap(typescriptBlocks)
    .filter(({ title }) => title === 'service.ts')

  it('on each store that has a page', () => {
    expect(services.map(({ document }) => document)).toHaveLength(4)
  })

  it.each(services)('in $document', ({ code }) => {
    expect(code.trim().split('\n').length).toBeLessThanOrEqual(60)
  })
})

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { documents, packageReadmes, root } from './docs-blocks.ts'
import { exportedValues } from './exported-names.ts'

/** The code of all documents: blocks and spans, without the preambles that readers do not see. */
const code = [...documents, ...packageReadmes]
  .map((document) => readFileSync(root + document, 'utf8').replaceAll(/<!--[\s\S]*?-->/g, ''))
  .flatMap((text) => [...text.matchAll(/^[ ]*```[\s\S]*?^[ ]*```$|`[^`\n]+`/gm)].map(([found]) => found))
const documented = new Set(code.flatMap((text) => text.match(/[A-Za-z_$][\w$]*/g) ?? []))

describe('the exported values', () => {
  const values = exportedValues()

  it('are read from all entries', () => {
    expect(values.length).toBeGreaterThan(300)
    expect(values).toContainEqual({ entry: '@ackord/core', name: 'Router', hasExample: expect.any(Boolean) })
  })

  it('of @ackord/core are at most 60, so that its index can be read', () => {
    const names = values.filter(({ entry }) => entry === '@ackord/core').map(({ name }) => name)
    expect(names.length).toBeGreaterThan(30)
    expect(names.length).toBeLessThanOrEqual(60)
  })

  it('are in the code of a document or of a README, or have an example in their doc comment', () => {
    const unexplained = values.filter(({ name, hasExample }) => !hasExample && !documented.has(name))
    expect(unexplained.map(({ entry, name }) => `${entry}: ${name}`)).toEqual([])
  })
})

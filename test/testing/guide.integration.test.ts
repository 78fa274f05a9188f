import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const folder = `${root}.cache/testing-guide`
const page = readFileSync(`${root}docs/guides/testing.md`, 'utf8')
const blocks = [...page.matchAll(/## ([^\n]+)\n|```ts\n([\s\S]*?)```/g)]
let section = ''
const examples = blocks.flatMap(([, heading, code], index) => {
  if (heading !== undefined) section = heading
  return code === undefined ? [] : [{ section, file: `${folder}/example-${index}.ts`, code }]
})

describe('docs/guides/testing.md', () => {
  beforeAll(() => {
    mkdirSync(folder, { recursive: true })
    for (const { file, code } of examples) writeFileSync(file, code)
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('has an example for each helper', () => {
    expect(examples.length).toBeGreaterThanOrEqual(6)
  })

  it.each(examples)('has an example that runs to its end: $section', async ({ file }) => {
    expect(await import(file)).toBeDefined()
  })
})

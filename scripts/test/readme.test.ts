import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const folder = `${root}.cache/readme`
const readmes = ['README.md', ...readdirSync(`${root}packages`).map((name) => `packages/${name}/README.md`)]
const blocks = readmes.flatMap((file) =>
  [...readFileSync(root + file, 'utf8').matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code = ''], index) => ({
    title: `${file}, example ${index + 1}`,
    path: `${folder}/${file.replaceAll(/[/.]/g, '-')}-${index + 1}.ts`,
    code,
  })),
)

describe('the examples in the READMEs', () => {
  beforeAll(() => {
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder, { recursive: true })
    for (const { path, code } of blocks) writeFileSync(path, code)
    writeFileSync(
      `${folder}/tsconfig.json`,
      JSON.stringify({ extends: '../../tsconfig.test.json', include: ['.'], compilerOptions: { noUnusedParameters: false } }),
    )
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('are there', () => {
    expect(blocks.length).toBeGreaterThanOrEqual(readmes.length)
  })

  it('have the right types', () => {
    const { stdout } = spawnSync(process.execPath, [`${root}node_modules/typescript/bin/tsc`, '-p', folder], { encoding: 'utf8' })
    expect(stdout).toBe('')
  })

  it.each(blocks)('run: $title', async ({ path }) => {
    const log = vi.spyOn(console, 'log').mockImplementation(() => {})
    try {
      await expect(import(/* @vite-ignore */ path)).resolves.toBeDefined()
    } finally {
      log.mockRestore()
    }
  })
})

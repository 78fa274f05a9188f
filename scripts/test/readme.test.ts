import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { root, typescriptBlocks } from './docs-blocks.ts'

const folder = `${root}.cache/readme`
const readmes = ['README.md', ...readdirSync(`${root}packages`).map((name) => `packages/${name}/README.md`)]
const blocks = readmes.flatMap((file) =>
  typescriptBlocks(file).map(({ setup, code }, index) => ({
    title: `${file}, example ${index + 1}`,
    name: `${file.replaceAll(/[/.]/g, '-')}-${index + 1}`,
    code: setup + code,
  })),
)

const tsc = (...args: readonly string[]) =>
  spawnSync(process.execPath, [`${root}node_modules/typescript/bin/tsc`, ...args], { cwd: root, encoding: 'utf8' }).stdout

/** As for a reader: each example in a separate file, compiled against the built packages, run by Node. */
describe('the examples in the READMEs', () => {
  let built = ''
  let compiled = ''

  beforeAll(() => {
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder, { recursive: true })
    for (const { name, code } of blocks) writeFileSync(`${folder}/${name}.ts`, code)
    const compilerOptions = {
      composite: false,
      declaration: false,
      declarationMap: false,
      isolatedDeclarations: false,
      // For the decorators of Nest.
      experimentalDecorators: true,
      noUnusedParameters: false,
      outDir: 'out',
    }
    writeFileSync(`${folder}/tsconfig.json`, JSON.stringify({ extends: '../../tsconfig.base.json', include: ['.'], compilerOptions }))
    writeFileSync(`${folder}/package.json`, JSON.stringify({ type: 'module' }))
    built = tsc('-b')
    compiled = tsc('-p', folder)
  }, 240_000)
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('exist', () => {
    expect(blocks.length).toBeGreaterThanOrEqual(readmes.length)
  })

  it('have the right types', () => {
    expect(built).toBe('')
    expect(compiled).toBe('')
  })

  // RabbitMQ 4 must be downloaded: a test of @ackord/amqp runs its example.
  it.each(blocks.filter(({ title }) => !title.startsWith('packages/amqp/')))('run to their end: $title', ({ name }) => {
    // The AWS SDK warns on old versions of Node.
    const env = { ...process.env, AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true' }
    const { status, stderr } = spawnSync(process.execPath, [`${folder}/out/${name}.js`], { encoding: 'utf8', timeout: 45_000, env })
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  })
})

import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { documents, root, typescriptBlocks } from './docs-blocks.ts'

const folder = `${root}.cache/docs-code`
const blocks = documents.flatMap(typescriptBlocks)
const nameOf = (document: string, line: number) => `${document.replaceAll(/[/.]/g, '-')}-${line}`

/**
 * Every TypeScript block is compiled as a separate file against the sources. The declarations that a fragment assumes are in a comment before it, which readers
 * do not see: see `docs-blocks.ts`.
 */
describe('the code in the documents', () => {
  let errors = ''

  beforeAll(() => {
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder, { recursive: true })
    for (const { document, line, setup, code } of blocks) {
      // The export makes a fragment without imports a module.
      writeFileSync(`${folder}/${nameOf(document, line)}.ts`, `${setup}${code}\nexport {}\n`)
    }
    const fromRedis = createRequire(`${root}packages/redis/package.json`)
    const compilerOptions = {
      composite: false,
      noEmit: true,
      isolatedDeclarations: false,
      // For the decorators of Nest.
      experimentalDecorators: true,
      allowImportingTsExtensions: true,
      rewriteRelativeImportExtensions: false,
      customConditions: ['@ackord/source'],
      // A fragment may show how something is created without using it; its setup is shared with others.
      noUnusedLocals: false,
      noUnusedParameters: false,
      // Resolved explicitly, because packages that need two versions of ioredis install it locally.
      paths: { ioredis: [fromRedis.resolve('ioredis').replace(/\.js$/, '.d.ts')] },
      typeRoots: [`${root}node_modules/@types`],
    }
    writeFileSync(`${folder}/tsconfig.json`, JSON.stringify({ extends: '../../tsconfig.base.json', include: ['.'], compilerOptions }))
    writeFileSync(`${folder}/package.json`, JSON.stringify({ type: 'module' }))
    errors = spawnSync(process.execPath, [`${root}node_modules/typescript/bin/tsc`, '-p', folder, '--pretty', 'false'], {
      cwd: folder,
      encoding: 'utf8',
    }).stdout
  }, 120_000)
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('exists', () => {
    expect(blocks.length).toBeGreaterThan(40)
  })

  it.each(blocks)('has the right types: $document, line $line', ({ document, line }) => {
    const own = errors.split('\n').filter((error) => error.startsWith(`${nameOf(document, line)}.ts`))
    expect(own).toEqual([])
  })

  it('has no other compiler errors', () => {
    expect(errors.split('\n').filter((error) => error !== '' && !/^docs-|^ /.test(error))).toEqual([])
  })
})

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { wrongImports } from '../rooms/check.mjs'
import { beginning, end, roomMap } from '../rooms/map.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))

describe('the rooms', () => {
  it('are drawn in ARCHITECTURE.md as they import each other', async () => {
    const [, map = ''] = readFileSync(`${root}ARCHITECTURE.md`, 'utf8').split(beginning)
    expect(map.split(end)[0]?.trim()).toBe(await roomMap(root))
  })
})

describe('the folders of sources', () => {
  it('have at most 20 files each', () => {
    const folders = readdirSync(`${root}packages`).flatMap((name) => foldersBelow(join('packages', name, 'src')))
    expect(folders.length).toBeGreaterThan(100)
    expect(folders.filter(({ files }) => files > 20)).toEqual([])
  })
})

/** A folder and all folders in it, with the number of their files. */
function foldersBelow(folder: string): { readonly folder: string; readonly files: number }[] {
  const entries = readdirSync(join(root, folder), { withFileTypes: true })
  const folders = entries.filter((entry) => entry.isDirectory()).flatMap(({ name }) => foldersBelow(join(folder, name)))
  return [{ folder, files: entries.filter((entry) => entry.isFile()).length }, ...folders]
}

describe('the rules for imports', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ackord-rooms-'))
  const wrong: Record<string, string> = {
    'packages/core/src/message/wrong-room.ts': '../router/router.ts',
    'packages/core/src/message/wrong-entry.ts': '../index.ts',
    'packages/sql/src/inbox/wrong-dialect.ts': '../postgres/dialect.ts',
    'packages/sql/src/postgres/wrong-use.ts': '../outbox/sql-outbox.ts',
    'packages/redis/src/outbox/lua/wrong-neighbour.ts': '../stream/stream-outbox.ts',
    'packages/core/src/router/wrong-package.ts': '../../../outbox/src/relay/relay.ts',
    'packages/outbox/src/relay/wrong-leaf.ts': '../../../telemetry/src/telemetry.ts',
    'packages/telemetry/src/metrics/wrong-room.ts': '../trace/tracing.ts',
  }
  const right: Record<string, string> = {
    'packages/core/src/router/right-room.ts': '../message/message.ts',
    'packages/sql/src/postgres/right-contract.ts': '../contract/dialect.ts',
    'packages/telemetry/src/metrics/right-file.ts': '../conventions.ts',
  }
  /** Files of cycles, and what they import. */
  const cyclic: Record<string, readonly string[]> = {
    'packages/kafka/src/source/first.ts': ['second.ts'],
    'packages/kafka/src/source/second.ts': ['first.ts'],
    'packages/http/src/source/first.ts': ['second.ts'],
    'packages/http/src/source/second.ts': ['third.ts'],
    'packages/http/src/source/third.ts': ['first.ts'],
    'packages/core/src/message/in-between.ts': ['context.ts'],
  }
  const mutuallyRecursive: Record<string, readonly string[]> = {
    'packages/core/src/message/context.ts': ['message.ts'],
    'packages/core/src/message/message.ts': ['context.ts', 'in-between.ts'],
  }
  let found: string[] = []

  beforeAll(async () => {
    const write = (file: string, text: string) => {
      mkdirSync(dirname(join(folder, file)), { recursive: true })
      writeFileSync(join(folder, file), text)
    }
    for (const [file, target] of Object.entries({ ...wrong, ...right })) {
      write(join(dirname(file), target), 'export type Target = string\n')
      write(file, `import type { Target } from '${target}'\n\nexport const value: Target = ''\n`)
    }
    for (const [file, targets] of Object.entries({ ...cyclic, ...mutuallyRecursive })) {
      const imports = targets.map((target, index) => `import type { Target as Target${index} } from './${target}'`)
      write(file, `${imports.join('\n')}\n\nexport type Target = ${targets.map((_, index) => `Target${index}`).join(' | ')}\n`)
    }
    found = await wrongImports(folder)
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  it.each(Object.keys(wrong))('refuse the import in %s', (file) => {
    expect(found.filter((line) => line.startsWith(`${file} imports `))).toHaveLength(1)
  })

  // A cycle is reported once, from one of its files.
  it.each([['kafka/src/source'], ['http/src/source'], ['core/src/message/in-between.ts']])(
    'refuse the cycle of type imports through %s',
    (path) => {
      const lines = found.filter((line) => line.startsWith(`packages/${path}`))
      expect(lines).toEqual([expect.stringMatching(/'no cycles' does not allow\. The cycle is \S+ → /)])
    },
  )

  it.each(Object.keys(mutuallyRecursive))('allow the cycle of the message and its context in %s', (file) => {
    expect(found.filter((line) => line.startsWith(`${file} imports `))).toEqual([])
  })

  it.each(Object.keys(right))('allow the import in %s', (file) => {
    expect(found.filter((line) => line.startsWith(`${file} imports `))).toEqual([])
  })
})

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
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
    found = await wrongImports(folder)
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  it.each(Object.keys(wrong))('refuse the import in %s', (file) => {
    expect(found.filter((line) => line.startsWith(`${file} imports `))).toHaveLength(1)
  })

  it.each(Object.keys(right))('allow the import in %s', (file) => {
    expect(found.filter((line) => line.startsWith(`${file} imports `))).toEqual([])
  })
})

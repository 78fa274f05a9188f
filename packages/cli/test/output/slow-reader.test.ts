import { spawn } from 'node:child_process'
import { setTimeout } from 'node:timers/promises'
import { beforeAll, describe, expect, it } from 'vitest'
import { bundleMain, main } from '../support/bundle-main.ts'
import { openTestStore } from '../support/services.ts'

beforeAll(bundleMain)

describe('a listing that is larger than a pipe', () => {
  it('is read to its end by a reader that is slower than the command', async () => {
    await using world = await openTestStore()
    await world.fill('orders', 10_000)
    const args = [main, 'list', '--limit', '10000', '--json', ...world.args]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    let text = ''
    for await (const chunk of child.stdout) {
      text += chunk
      // The slowness of the reader: in total far longer than the command waits for clients that do not end.
      await setTimeout(40)
    }
    expect((JSON.parse(text) as { records: readonly unknown[] }).records.length).toBe(10_000)
  })
})

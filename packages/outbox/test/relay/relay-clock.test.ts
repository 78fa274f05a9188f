import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { PublishResult } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { bundle } from '../../../../scripts/bundle.mjs'
import { deferred } from '../../../core/test/support/router-world.ts'
import { VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { watchSuspensions } from '../../src/options/watched-runtime.ts'
import { ids, openWorld, SuspendableRuntime } from '../support/relay-world.ts'

const ok: PublishResult = { ok: true }
const minute = 60_000

describe('a relay whose clock is set back', () => {
  it('tries a destination again when its pause is over, not ten minutes later', async () => {
    let down = true
    const world = openWorld({
      answer: async ({ messages }) => messages.map(() => (down ? { ok: false, error: new Error('down'), scope: 'destination' } : ok)),
    })
    await world.add('orders', ...ids(3))
    world.relay.start()
    await world.runtime.advance(100)
    world.runtime.shiftClock(-10 * minute)
    down = false
    await world.runtime.advance(5000)
    // They were appended before the clock was set back, so they are due later by the store's clock; the test only needs the destination to be tried.
    await world.add('orders', 'new')
    await world.runtime.advance(5000)
    expect(world.sent()).toContain('new')
    await world.relay.stop()
  })

  it('treats a clock set forward by an hour as a suspension, and loses nothing', async () => {
    const world = openWorld()
    world.relay.start()
    await world.runtime.advance(100)
    world.runtime.shiftClock(60 * minute)
    await world.add('orders', ...ids(3))
    await world.runtime.advance(10_000)
    expect(await world.states()).toEqual({})
    expect(world.logger.at('error')).toEqual([])
    await world.relay.stop()
  })
})

describe('a relay that was suspended', () => {
  it.each(['publish', 'claim', 'settle'])(
    'in the middle of a %s logs it once, and reports neither the store nor the destination as down',
    async (where) => {
      const answers = deferred()
      const world = openWorld({
        answer: async ({ messages }) => {
          if (where === 'publish') await answers.promise
          return messages.map(() => ok)
        },
      })
      world.store.before = (call) => (call === where ? answers.promise : undefined)
      await world.add('orders', ...ids(5))
      const runtime = new SuspendableRuntime(world.runtime)
      const relay = world.another({ runtime }).start()
      await world.runtime.advance(0)
      runtime.suspend()
      await world.runtime.advance(10 * minute)
      runtime.resume()
      // The answer has arrived already; timers fire before it.
      await world.runtime.advance(1)
      answers.resolve()
      await world.runtime.advance(5 * minute)
      expect(await world.states()).toEqual({})
      expect(world.logger.lines.map(({ level, text }) => `${level}: ${text.slice(0, 26)}`)).toEqual(['warn: This process was suspended'])
      expect(relay.health()).toMatchObject({ store: 'up', downDestinations: [] })
      await relay.stop()
    },
  )

  it('counts a suspension during which the monotonic clock stood still', () => {
    const clock = new VirtualRuntime()
    const suspensions: number[] = []
    const watched = watchSuspensions(clock, (duration) => void suspensions.push(duration))
    const before = watched.monotonic()
    clock.shiftClock(45_000)
    expect(watched.monotonic() - before).toBe(45_000)
    clock.shiftClock(-10 * minute)
    expect(watched.monotonic() - before).toBe(45_000)
    clock.shiftClock(300)
    expect(watched.monotonic() - before).toBe(45_000)
    expect(suspensions).toEqual([45_000])
  })

  it('by SIGSTOP logs it once', async () => {
    const program = fileURLToPath(new URL('../support/suspended-relay.ts', import.meta.url))
    const file = fileURLToPath(new URL(`../../../../.cache/outbox/${process.pid}.mjs`, import.meta.url))
    await bundle(program, file)
    const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'inherit'] })
    let text = ''
    child.stdout.setEncoding('utf8').on('data', (part: string) => {
      text += part
    })
    const shows = async (line: string) => {
      while (!text.includes(line)) await once(child.stdout, 'data')
    }
    try {
      await shows('publishing')
      // It has suspended itself.
      await new Promise((resolve) => setTimeout(resolve, 3500))
      child.kill('SIGCONT')
      await shows('drained')
    } finally {
      child.kill('SIGKILL')
      for (const each of [file, `${file}.map`]) rmSync(each, { force: true })
    }
    expect(text.match(/suspended/g)).toHaveLength(1)
    expect(text).not.toMatch(/store failed|destination is down/)
  })
})

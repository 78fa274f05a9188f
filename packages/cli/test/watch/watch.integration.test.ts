import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startFaultProxy } from '@ackord/testkit'
import { beforeAll, describe, expect, it } from 'vitest'
import { Ackord, ackord, emptyDirectory, runOn, start } from '../support/ackord.ts'
import { bundleMain, main } from '../support/bundle-main.ts'
import { openTestStore, postgresUrl, record, type TestStore } from '../support/services.ts'
import { VirtualTerminal } from '../support/virtual-terminal.ts'

beforeAll(bundleMain)

/** The lines of JSON that a command has printed. */
function objectsOf({ stdout }: { readonly stdout: string }): readonly Record<string, unknown>[] {
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

async function publish(world: TestStore, destination: string): Promise<void> {
  const outbox = world.store.outbox({ logger: { debug() {}, info() {}, warn() {}, error() {} } })
  const claims = await outbox.claim({ limit: 100, lease: 30_000, destinations: [destination] })
  await outbox.settle(claims.map(({ id, token }) => ({ id, token, result: 'published' })))
}

describe('status --watch on a terminal', () => {
  it('redraws the screen in place, with the changes since the previous refresh, and restores it in the end', async () => {
    await using world = await openTestStore(postgresUrl)
    await world.fill('orders', 2)
    const terminal = new VirtualTerminal(100, 20)
    const watching = runOn(terminal, ['status', '--watch', '100ms', ...world.args])
    await terminal.until((screen) => /orders +2 +0 +0 +0 +0 +\d+ m?s$/m.test(screen))
    expect(terminal.screen[0]).toMatch(/^Refreshed at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, every 100 ms; press Ctrl-C to end\.$/)
    expect([terminal.isAlternate, terminal.cursorShown]).toEqual([true, false])
    await world.fill('stock', 12)
    await terminal.until((screen) => /stock +12 .* ready \+12$/m.test(screen) && /all +14 .* ready \+12$/m.test(screen))
    // The next refresh has no change, and nothing is left of the previous one.
    await terminal.until((screen) => screen.includes('stock') && !screen.includes('+12') && !screen.includes('CHANGE'))
    await publish(world, 'stock')
    await terminal.until((screen) => /stock +0 .* (ready|leased) -12$/m.test(screen))
    await terminal.until((screen) => !screen.includes('stock') && !screen.includes('all'))
    expect(terminal.screen.filter((line) => line.startsWith('orders')).length).toBe(1)
    watching.interrupt()
    expect(await watching.ended).toBe(0)
    expect(watching.stderr).toBe('')
    expect([terminal.isAlternate, terminal.cursorShown]).toEqual([false, true])
    // The last contents stay.
    expect(terminal.screen.join('\n')).toMatch(/^Refreshed at \S+Z\.\n\nDESTINATION[^\n]+\norders/)
  })

  it('fits a terminal whose size changes', async () => {
    await using world = await openTestStore(postgresUrl)
    await world.fill('a-destination-with-a-long-name', 2)
    const terminal = new VirtualTerminal(120, 20)
    const watching = runOn(terminal, ['status', '--watch', '1h', ...world.args])
    await terminal.until((screen) => screen.includes('a-destination-with-a-long-name'))
    terminal.resize(70, 5)
    await terminal.until((screen) => /^a-dest[\w-]*… +2/m.test(screen))
    expect(terminal.screen.length).toBeLessThanOrEqual(5)
    expect(terminal.screen.at(-1)).toBe('… 2 lines more')
    for (const line of terminal.screen) expect(line.length).toBeLessThanOrEqual(70)
    watching.interrupt()
    expect(await watching.ended).toBe(0)
  })

  it('shows the terminal as it was while the process is stopped by Ctrl-Z, and the screen again when it continues', async () => {
    await using world = await openTestStore(postgresUrl)
    await world.fill('orders', 2)
    const terminal = new VirtualTerminal(100, 20)
    terminal.write('$ ackord status --watch\n')
    const watching = runOn(terminal, ['status', '--watch', '1h', ...world.args])
    await terminal.until((screen) => /orders +2/.test(screen))
    watching.suspend()
    expect([terminal.isAlternate, terminal.cursorShown]).toEqual([false, true])
    expect(terminal.screen).toEqual(['$ ackord status --watch'])
    watching.resume()
    expect([terminal.isAlternate, terminal.cursorShown]).toEqual([true, false])
    expect(terminal.screen.join('\n')).toMatch(/^Refreshed at [\s\S]*orders +2/)
    // After SIGSTOP, which cannot be observed: the screen is still open, and is drawn again.
    terminal.write('\u001b[2J')
    watching.resume()
    expect(terminal.screen.join('\n')).toMatch(/^Refreshed at [\s\S]*orders +2/)
    watching.interrupt()
    expect(await watching.ended).toBe(0)
    expect([terminal.isAlternate, terminal.cursorShown]).toEqual([false, true])
    expect(terminal.screen[0]).toBe('$ ackord status --watch')
  })

  it('shows a store that goes away, with its last answer, and continues when it is back', async () => {
    await using world = await openTestStore(postgresUrl)
    await world.fill('orders', 2)
    await using proxy = await startFaultProxy(postgresUrl)
    const terminal = new VirtualTerminal(200, 20)
    const watching = runOn(terminal, ['status', '--watch', '100ms', '--store', proxy.url, ...world.args.slice(2)])
    await terminal.until((screen) => screen.includes('orders'))
    proxy.refuse(true)
    proxy.cut()
    await terminal.until((screen) =>
      /Cannot use postgres:.*\nShown is the last answer\. Trying again in \d+ m?s\.\n\nDESTINATION.*\norders +2/.test(screen),
    )
    await world.fill('orders', 3)
    proxy.refuse(false)
    await terminal.until((screen) => /orders +5/.test(screen))
    expect(terminal.screen.join('\n')).not.toContain('Cannot use')
    watching.interrupt()
    expect(await watching.ended).toBe(0)
    expect(watching.stderr).toBe('')
  })

  it('prints blocks of lines where the cursor cannot be moved', async () => {
    await using world = await openTestStore(postgresUrl)
    await world.fill('orders', 1)
    const terminal = new VirtualTerminal(100, 20)
    const watching = runOn(terminal, ['status', '--watch', '100ms', ...world.args], { TERM: 'dumb' })
    await terminal.until((screen) => screen.split('DESTINATION').length > 2)
    watching.interrupt()
    expect(await watching.ended).toBe(0)
    expect([terminal.frames, terminal.isAlternate]).toEqual([0, false])
  })
})

describe('list --watch on a terminal', () => {
  it('says how many records are new, changed and gone', async () => {
    await using world = await openTestStore(postgresUrl)
    await world.fill('orders', 2)
    const terminal = new VirtualTerminal(100, 20)
    const watching = runOn(terminal, ['list', '--watch', '100ms', ...world.args])
    await terminal.until((screen) => /^\d+ +ready +orders/m.test(screen))
    await world.fill('stock', 3)
    await terminal.until((screen) => screen.includes('Since the previous refresh: 3 new.'))
    await world.park()
    await terminal.until((screen) => / 5 changed\./.test(screen))
    await terminal.until((screen) => screen.includes('Since the previous refresh: no change.'))
    expect((await ackord(['discard', '--destination', 'stock', '--yes', '--reason', 'test', ...world.args])).code).toBe(0)
    await terminal.until((screen) => screen.includes('Since the previous refresh: 3 gone.'))
    expect(terminal.screen.join('\n')).not.toContain('stock')
    watching.interrupt()
    expect(await watching.ended).toBe(0)
  })
})

describe('--watch that is not on a terminal', () => {
  it('prints a line of JSON for each refresh, until a signal ends it', async () => {
    await using world = await openTestStore(postgresUrl)
    await world.fill('orders', 1)
    for (const [command, signal] of [
      ['status', 'SIGINT'],
      ['list', 'SIGTERM'],
    ] as const) {
      const watching = start([command, '--watch', '100ms', '--json', ...world.args])
      while (watching.stdout.split('\n').length < 4) await watching.heard()
      watching.child.kill(signal)
      const ended = await watching.ended
      expect({ code: ended.code, stderr: ended.stderr }).toEqual({ code: 0, stderr: '' })
      for (const one of objectsOf(ended)) {
        expect(one['time']).toMatch(/^\d{4}-.*Z$/)
        if (command === 'list') expect(one['records']).toEqual([expect.objectContaining({ destination: 'orders' })])
        else
          expect(one).toMatchObject({ totals: { ready: 1 }, destinations: [{ destination: 'orders', oldest_age_ms: expect.any(Number) }] })
      }
    }
  })

  it('prints a block of lines for each refresh, without control sequences', async () => {
    await using world = await openTestStore(postgresUrl)
    await world.fill('orders', 1)
    const watching = start(['status', '--watch', '100ms', ...world.args])
    while (watching.stdout.split('DESTINATION').length < 3) await watching.heard()
    watching.child.kill('SIGHUP')
    const { code, stdout } = await watching.ended
    expect(code).toBe(0)
    expect(stdout).not.toContain('\u001b')
    expect(stdout).toMatch(
      /^\d{4}-\S+Z\nDESTINATION[^\n]+\norders +1 .*\n\nThe oldest pending record is .* old\.\n\n\d{4}-\S+Z\nDESTINATION/,
    )
  })

  it('reports a store that goes away on stderr, and continues when it is back', async () => {
    await using world = await openTestStore(postgresUrl)
    await using proxy = await startFaultProxy(postgresUrl)
    const watching = start(['status', '--watch', '100ms', '--json', '--store', proxy.url, ...world.args.slice(2)])
    await watching.said('"totals"')
    proxy.refuse(true)
    proxy.cut()
    await watching.said('The store could not be read, and is tried again.')
    await world.fill('orders', 1)
    proxy.refuse(false)
    await watching.said('"destination":"orders"')
    watching.child.kill('SIGINT')
    const { code, stderr } = await watching.ended
    expect(code).toBe(0)
    const [first = ''] = stderr.split('\n').filter((line) => line.includes('tried again'))
    expect(JSON.parse(first)).toMatchObject({ level: 'warn', error: expect.stringContaining('Cannot use'), retryAfter: expect.any(Number) })
  })

  it('ends when its reader has gone', async () => {
    await using world = await openTestStore(postgresUrl)
    const child = spawn(process.execPath, [main, 'status', '--watch', '100ms', '--json', ...world.args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await once(child.stdout, 'data')
    child.stdout.destroy()
    expect(await once(child, 'close')).toEqual([0, null])
  })
})

describe('--watch fails at once', () => {
  it('if the store cannot be reached at the start', async () => {
    const { code, stdout, stderr } = await ackord(['status', '--watch', '--store', 'postgres://127.0.0.1:1/db'])
    expect(stderr).toContain('Cannot use postgres://127.0.0.1:1/db: connection refused')
    expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
  })

  it('if the cursor is invalid', async () => {
    await using world = await openTestStore(postgresUrl)
    expect(await ackord(['list', '--watch', '--after', 'bogus', ...world.args])).toMatchObject({ code: 2, stdout: '' })
  })
})

describe('a real terminal', () => {
  /** Runs `ackord status --watch` in a pseudo-terminal of 100 by 30; the shell prints the exit code, and the state of the terminal. */
  function watchIn(args: readonly string[], env: Readonly<Record<string, string>> = { TERM: 'xterm' }): Ackord {
    const words = ['status', '--watch', '100ms', ...args].map((word) => `'${word}'`).join(' ')
    const command = `trap : INT; stty cols 100 rows 30; ${process.execPath} ${main} ${words}; echo "code=$?"; stty -a`
    return new Ackord(['script', '-qec', command, join(emptyDirectory(), 'typescript')], { stdin: 'pipe', env })
  }

  async function end(watching: Ackord): Promise<string> {
    // A pseudo-terminal: text written to its stdin counts as typed.
    watching.child.stdin?.write('\u0003')
    await watching.said('isig icanon')
    watching.child.stdin?.end()
    await watching.ended
    return watching.stdout
  }

  it('has its cursor and its contents back after Ctrl-C, and parked records in colour', async () => {
    await using world = await openTestStore(postgresUrl)
    await world.store.append([record('orders', '1')])
    await world.park()
    const watching = watchIn(world.args)
    await watching.said('1 record is parked')
    const shown = await end(watching)
    expect(shown).toContain('code=0')
    expect(shown.lastIndexOf('\u001b[?25h')).toBeGreaterThan(shown.lastIndexOf('\u001b[?25l'))
    expect(shown.lastIndexOf('\u001b[?1049l')).toBeGreaterThan(shown.lastIndexOf('\u001b[?1049h'))
    expect(shown).toContain('\u001b[33m1\u001b[39m')
    expect(shown).toContain('\u001b[33m1 record is parked: ackord list --state parked\u001b[39m')
  })

  it('is restored before Ctrl-Z stops the process, and drawn again, in its new size, when the job continues', async () => {
    await using world = await openTestStore(postgresUrl)
    await world.fill('a-destination-with-a-long-name', 1)
    const words = ['status', '--watch', '1h', ...world.args].map((word) => `'${word}'`).join(' ')
    // With job control, as in an interactive shell: the job gets the terminal, and the shell continues when the job is stopped.
    const script = [
      'set -m',
      'stty cols 100 rows 30',
      `${process.execPath} ${main} ${words}`,
      'echo "stopped=$?"',
      'stty cols 60',
      'fg > /dev/null',
      'echo "code=$?"',
    ]
    const file = join(emptyDirectory(), 'job.sh')
    writeFileSync(file, script.join('\n'))
    const watching = new Ackord(['script', '-qec', `bash ${file}`, join(emptyDirectory(), 'typescript')], {
      stdin: 'pipe',
      env: { TERM: 'xterm' },
    })
    // For a test that fails: without a terminal the command ends.
    using _ = { [Symbol.dispose]: () => void watching.child.kill() }
    await watching.said('a-destination-with-a-long-name')
    watching.child.stdin?.write('\u001a')
    while (!/stopped=\d+\s/.test(watching.stdout)) await watching.heard()
    const [before = '', after = ''] = watching.stdout.split('stopped=')
    // 128 + SIGTSTP: the shell sees a stopped job.
    expect(after).toMatch(/^148\b/)
    expect(before.lastIndexOf('\u001b[?25h')).toBeGreaterThan(before.lastIndexOf('\u001b[?25l'))
    expect(before.lastIndexOf('\u001b[?1049l')).toBeGreaterThan(before.lastIndexOf('\u001b[?1049h'))
    while (!/\?1049h[\s\S]*a-dest[\w-]*…/.test(watching.stdout.split('stopped=')[1] ?? '')) await watching.heard()
    watching.child.stdin?.write('\u0003')
    await watching.said('code=0')
    watching.child.stdin?.end()
    await watching.ended
    const ended = watching.stdout.slice(watching.stdout.indexOf('stopped='))
    expect(ended.lastIndexOf('\u001b[?25h')).toBeGreaterThan(ended.lastIndexOf('\u001b[?25l'))
    expect(ended.lastIndexOf('\u001b[?1049l')).toBeGreaterThan(ended.lastIndexOf('\u001b[?1049h'))
  })

  it('has no colours if NO_COLOR is set', async () => {
    await using world = await openTestStore(postgresUrl)
    await world.fill('orders', 1)
    await world.park()
    const watching = watchIn(world.args, { TERM: 'xterm', NO_COLOR: '1' })
    await watching.said('1 record is parked')
    expect(await end(watching)).not.toMatch(/\p{Cc}\[3\d/u)
  })
})

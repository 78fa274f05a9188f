import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { afterEachFile } from '../../../../test/leftovers/after-each-file.ts'
import { interruption } from '../../src/output/errors.ts'
import { Secrets } from '../../src/output/secrets.ts'
import { run } from '../../src/program.ts'
import type { Suspendable } from '../../src/suspension.ts'
import { main } from './bundle-main.ts'
import type { VirtualTerminal } from './virtual-terminal.ts'

/** The time limit for a command that hangs. */
const limit = 200_000

/** The result of a command. */
export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
  /** The last line of stdout, as JSON. */
  readonly last: Record<string, unknown>
}

export interface AckordOptions {
  /** Default: no variables of the command. */
  readonly env?: Readonly<Record<string, string>>
  /** Default: a directory without a configuration file. */
  readonly cwd?: string
}

interface ProcessOptions extends AckordOptions {
  /** Default: there is none. */
  readonly stdin?: 'ignore' | 'pipe'
  /** Default: none. */
  readonly nodeOptions?: readonly string[]
}

/** A command in a separate process. */
export class Ackord {
  readonly child: ChildProcess
  readonly ended: Promise<Ended>
  #stdout = ''
  #stderr = ''
  #waiting: (() => void)[] = []

  constructor(command: readonly string[], { env = {}, cwd = emptyDirectory(), stdin = 'ignore' }: ProcessOptions = {}) {
    const [file = '', ...args] = command
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('ACKORD_'))
    this.child = spawn(file, args, { cwd, env: { ...Object.fromEntries(inherited), ...env }, stdio: [stdin, 'pipe', 'pipe'] })
    this.child.stdout?.on('data', (data) => this.#heard(data, 'stdout'))
    this.child.stderr?.on('data', (data) => this.#heard(data, 'stderr'))
    this.ended = this.#end()
    this.ended.catch(() => {})
  }

  get stdout(): string {
    return this.#stdout
  }

  /** Resolves when the command has printed this text, on stdout or stderr. */
  async said(text: string): Promise<void> {
    while (!(this.#stdout + this.#stderr).includes(text)) {
      const first = await Promise.race([this.heard().then(() => 'heard' as const), this.ended.then(() => 'ended' as const)])
      if (first === 'ended' && !(this.#stdout + this.#stderr).includes(text)) {
        throw new Error(`It ended without printing '${text}'. It printed:\n${this.#stdout}\n${this.#stderr}`)
      }
    }
  }

  /** Resolves when the command prints something. */
  heard(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  #heard(data: Buffer, from: 'stdout' | 'stderr'): void {
    if (from === 'stdout') this.#stdout += data
    else this.#stderr += data
    for (const wake of this.#waiting.splice(0)) wake()
  }

  async #end(): Promise<Ended> {
    const timer = setTimeout(() => this.child.kill('SIGKILL'), limit)
    const [code] = (await once(this.child, 'close')) as [number | null]
    clearTimeout(timer)
    if (this.child.signalCode === 'SIGKILL') throw new Error(`It was killed. It had printed:\n${this.#stdout}\n${this.#stderr}`)
    return endedWith(code, this.#stdout, this.#stderr)
  }
}

function endedWith(code: number | null, stdout: string, stderr: string): Ended {
  return {
    code,
    stdout,
    stderr,
    get last() {
      return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Record<string, unknown>
    },
  }
}

/** Runs the command in a separate process, which `bundleMain()` must have built before: for signals, terminals and other behaviour of processes. */
export function start(args: readonly string[], options?: ProcessOptions): Ackord {
  return new Ackord([process.execPath, ...(options?.nodeOptions ?? []), main, ...args], options)
}

/** The stores that the test itself has open. An SQLite file has one owner per process, so commands on these stores need another process. */
export const openHere: Set<string> = new Set()

let runningHere = 0

/**
 * Runs the command to its end in this process, unless a test has its store open. Commands with a working directory run one at a time,
 * because the directory is global to the process.
 */
export async function ackord(args: readonly string[], options: AckordOptions = {}): Promise<Ended> {
  return args.some((arg) => openHere.has(arg)) ? await start(args, options).ended : await runHere(args, options)
}

async function runHere(args: readonly string[], { env = {}, cwd }: AckordOptions): Promise<Ended> {
  if (cwd !== undefined && runningHere > 0) throw new Error('Another command is running, and would be in this directory too.')
  const before = process.cwd()
  if (cwd !== undefined) process.chdir(cwd)
  runningHere += 1
  const [stdout, stderr] = [new Heard(), new Heard()]
  try {
    const code = await run({
      args,
      environment: env,
      stdout,
      stderr,
      secrets: new Secrets(),
      signal: AbortSignal.timeout(limit),
      onStopsItself() {},
    })
    return endedWith(code, stdout.text, stderr.text)
  } finally {
    runningHere -= 1
    if (cwd !== undefined) process.chdir(before)
  }
}

export interface OnTerminal {
  readonly ended: Promise<number>
  readonly stderr: string
  /** As Ctrl-C does. */
  interrupt(): void
  /** As Ctrl-Z does, until the process is stopped. */
  suspend(): void
  /** As SIGCONT does. */
  resume(): void
}

/** Runs the command in this process, on a virtual terminal. */
export function runOn(terminal: VirtualTerminal, args: readonly string[], env: Readonly<Record<string, string>> = {}): OnTerminal {
  const stopping = new AbortController()
  const stderr = new Heard()
  const views = new Set<Suspendable>()
  const suspension = (view: Suspendable) => {
    views.add(view)
    return () => void views.delete(view)
  }
  const options = { args, environment: env, stdout: terminal, stderr, secrets: new Secrets(), onStopsItself() {}, suspension }
  return {
    ended: run({ ...options, signal: stopping.signal }),
    get stderr() {
      return stderr.text
    },
    interrupt: () => stopping.abort(interruption()),
    suspend() {
      for (const view of views) view.suspend()
    },
    resume() {
      for (const view of views) view.resume()
    },
  }
}

class Heard extends Writable {
  text = ''

  override _write(data: Buffer, _: BufferEncoding, done: () => void): void {
    this.text += data
    done()
  }
}

const directories: string[] = []
afterEachFile(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true, force: true })
})

/** An empty directory that is removed after the last test of the file. */
export function emptyDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'ackord-cli-test-'))
  directories.push(directory)
  return directory
}

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../../..', import.meta.url))
export const main: string = join(root, 'packages/cli/dist/main.js')
/** For a command that hangs. */
const limit = 100_000

/** What a command left behind. */
export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
  /** The last line of stdout, as JSON. */
  readonly last: Record<string, unknown>
}

export interface AckordOptions {
  readonly env?: Readonly<Record<string, string>>
  /** Default: an empty directory. */
  readonly cwd?: string
  /** Default: there is none. */
  readonly stdin?: 'ignore' | 'pipe'
}

/** Compiles what the tests run. */
export function build(): void {
  const { status, stdout } = spawnSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-b', 'packages/cli'], {
    cwd: root,
    encoding: 'utf8',
    timeout: 240_000,
  })
  if (status !== 0) throw new Error(`tsc -b packages/cli failed:\n${stdout}`)
}

/** A command that runs. */
export class Ackord {
  readonly child: ChildProcess
  readonly ended: Promise<Ended>
  #stdout = ''
  #stderr = ''
  #waiting: (() => void)[] = []

  constructor(command: readonly string[], { env = {}, cwd = emptyDirectory(), stdin = 'ignore' }: AckordOptions = {}) {
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

  /** Resolves when it has printed this, on stdout or stderr. */
  async said(text: string): Promise<void> {
    while (!(this.#stdout + this.#stderr).includes(text)) {
      const heard = new Promise<'heard'>((resolve) => this.#waiting.push(() => resolve('heard')))
      const first = await Promise.race([heard, this.ended.then(() => 'ended' as const)])
      if (first === 'ended' && !(this.#stdout + this.#stderr).includes(text)) {
        throw new Error(`It ended without saying '${text}'. It said:\n${this.#stdout}\n${this.#stderr}`)
      }
    }
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
    if (this.child.signalCode === 'SIGKILL') throw new Error(`It was killed. It had said:\n${this.#stdout}\n${this.#stderr}`)
    const lastLine = this.#stdout.trimEnd().split('\n').at(-1) ?? ''
    return {
      code,
      stdout: this.#stdout,
      stderr: this.#stderr,
      get last() {
        return JSON.parse(lastLine) as Record<string, unknown>
      },
    }
  }
}

export function start(args: readonly string[], options?: AckordOptions): Ackord {
  return new Ackord([process.execPath, main, ...args], options)
}

/** Runs it to its end. */
export async function ackord(args: readonly string[], options?: AckordOptions): Promise<Ended> {
  return await start(args, options).ended
}

const directories: string[] = []
process.on('exit', () => {
  for (const directory of directories) rmSync(directory, { recursive: true, force: true })
})

export function emptyDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'ackord-cli-test-'))
  directories.push(directory)
  return directory
}

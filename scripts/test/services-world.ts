import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { waitUntil } from '../servers/wait-until.mjs'

const services = fileURLToPath(new URL('../services', import.meta.url))

/** One run of `scripts/services`, as seen from outside. */
interface Run {
  readonly process: ChildProcess
  /** Resolves when the process and everything that writes to its output have ended. */
  readonly ended: Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }>
  readonly stdout: () => string
}

export interface World extends AsyncDisposable {
  /** The parent of the servers' temporary directories, which contains nothing else. */
  readonly directory: string
  run(args: readonly string[], environment?: Readonly<Record<string, string>>): Run
  /** The processes and directories left by the servers that were started in this world. */
  leftovers(): readonly string[]
  /** Resolves when nothing is left; rejects after ten seconds. */
  empty(): Promise<void>
}

/** A separate directory for temporary directories, so that anything left in it comes from this test. */
export function openWorld(): World {
  const directory = mkdtempSync(join(tmpdir(), 'services-test-'))
  chmodSync(directory, 0o755) // servers run under their own accounts
  const runs: ChildProcess[] = []
  const leftovers = () => [...readdirSync(directory), ...processesWith(join(directory, 'ackord-'))]

  return {
    directory,
    run(args, environment = {}) {
      const run = startRun(args, { ...process.env, TMPDIR: directory, ...environment })
      runs.push(run.process)
      return run
    },
    leftovers,
    async empty() {
      await waitUntil('the end of all servers', () => leftovers().length === 0)
    },
    async [Symbol.asyncDispose]() {
      for (const run of runs) run.kill('SIGKILL')
      await waitUntil('the end of all servers', () => processesWith(join(directory, 'ackord-')).length === 0)
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

function startRun(args: readonly string[], env: NodeJS.ProcessEnv): Run {
  const child = spawn(services, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const ended = new Promise<Awaited<Run['ended']>>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, stdout, stderr }))
  })
  return { process: child, ended, stdout: () => stdout }
}

/** Processes with this text in their working directory, command line or environment; Redis overwrites the last two. */
function processesWith(text: string): string[] {
  if (!existsSync('/proc/self/environ')) {
    const listing = execFileSync('ps', ['-Aww', '-E', '-o', 'pid=,command='], { encoding: 'utf8' })
    return listing.split('\n').filter((line) => line.includes(text))
  }
  return readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .flatMap((pid) => {
      try {
        const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
        const places = [command, readlinkSync(`/proc/${pid}/cwd`), readFileSync(`/proc/${pid}/environ`, 'utf8')]
        return places.some((place) => place.includes(text)) ? [`${pid} ${command}`] : []
      } catch {
        return [] // ended, or owned by another user
      }
    })
}

import { writeSync } from 'node:fs'
import { installProbe } from '@ackord/core'
import { type Answer, killVariable, lastWords, type Question } from './service-protocol.ts'

/** A service while it runs. */
export interface RunningService {
  /** Whether it has nothing in hand, as `health()` of its router and its relay says. */
  isIdle(): boolean
  /** Finishes what is in hand and closes every connection; the process must end by itself then. */
  stop(): Promise<void>
}

/** What is used of Node's `process`. */
export interface CrashableProcess {
  readonly pid: number
  readonly env: Readonly<Record<string, string | undefined>>
  kill(pid: number, signal: 'SIGKILL'): unknown
  on(event: 'message', listener: (message: unknown) => void): unknown
  on(event: 'disconnect' | 'SIGTERM', listener: () => void): unknown
  send?(answer: Answer): unknown
  disconnect?(): void
}

/**
 * The main function of a service that `testCrashPoints()` starts: `await runCrashable(process, async () => …)`. The process dies at the point
 * that its environment names, stops at SIGTERM, and does not outlive whoever started it.
 */
export async function runCrashable(process: CrashableProcess, start: () => Promise<RunningService>): Promise<void> {
  let stopped = false
  const die = () => process.kill(process.pid, 'SIGKILL')
  const kill = process.env[killVariable]
  if (kill !== undefined) arm(kill, die)
  process.on('disconnect', () => {
    if (!stopped) die()
  })
  const terminated = new Promise<void>((resolve) => {
    process.on('SIGTERM', resolve)
  })

  const service = await start()
  process.on('message', (message) => {
    // Nobody else has the channel.
    if ((message as Question).ask === 'idle') process.send?.({ idle: service.isIdle() })
  })
  process.send?.({ started: true })
  await terminated
  await service.stop()
  stopped = true
  // What still keeps the process alive is a leak, and found by that.
  process.disconnect?.()
}

function arm(kill: string, die: () => unknown): void {
  const [point, hit] = kill.split(' ')
  let hits = 0
  installProbe((reached) => {
    if (reached !== point) return undefined
    hits += 1
    if (hits !== Number(hit)) return undefined
    writeSync(1, lastWords(kill))
    die()
    return new Promise(() => {})
  })
}

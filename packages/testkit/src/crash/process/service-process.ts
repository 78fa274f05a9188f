import { type ChildProcess, fork } from 'node:child_process'
import { writeSync } from 'node:fs'
import { installProbe } from '@ackord/core/internal'
import { deferred } from '../../helpers/tracked-message.ts'
import { within } from '../../run/scenario.ts'
import type { Kill, ServiceProgram } from '../crash-points.ts'

/** How a process ended: by its own code, or by a signal. */
export interface ServiceEnd {
  readonly code: number | null
  readonly signal: string | null
}

/** A service in a process of its own. */
export class ServiceProcess {
  readonly #child: ChildProcess
  readonly #kill: Kill | undefined
  readonly #patience: number
  readonly #started = deferred()
  readonly #ended = deferred<ServiceEnd>()
  #end: ServiceEnd | undefined
  #output = ''
  #onIdle: ((idle: boolean) => void) | undefined

  /** `patience` is the time limit in milliseconds to start, to answer and to stop. */
  constructor(program: ServiceProgram, patience: number, kill?: Kill) {
    this.#kill = kill
    this.#patience = patience
    this.#child = fork(program.file, [], {
      env: { ...program.environment, [killVariable]: kill === undefined ? undefined : killText(kill) },
      // The options of the test runner's process do not apply to the service.
      execArgv: [],
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    })
    const listen = (chunk: Buffer) => {
      this.#output += chunk.toString()
    }
    this.#child.stdout?.on('data', listen)
    this.#child.stderr?.on('data', listen)
    this.#child.on('error', (error) => listen(Buffer.from(`${error.message}\n`)))
    this.#child.on('message', (message) => this.#hear(message as Answer))
    // Unlike `exit`, `close` is emitted after all output was read.
    this.#child.on('close', (code, signal) => {
      this.#end = { code, signal }
      this.#onIdle?.(false)
      this.#ended.resolve(this.#end)
    })
  }

  /** Resolves when the service has started, or has ended before that. */
  async started(): Promise<void> {
    await this.#within(Promise.race([this.#started.promise, this.#ended.promise]), 'The start of the service')
  }

  get hasEnded(): boolean {
    return this.#end !== undefined
  }

  /** Whether the service is alive and has no message or record in flight. */
  async isIdle(): Promise<boolean> {
    if (this.hasEnded || !this.#child.connected) return false
    const answer = deferred<boolean>()
    this.#onIdle = answer.resolve
    const question: Question = { ask: 'idle' }
    this.#child.send(question, () => {})
    return await this.#within(answer.promise, 'The answer of the service')
  }

  /** Throws unless the service died as planned: by SIGKILL, at its point. */
  checkKilled(): void {
    const { signal, code } = this.#end ?? {}
    const kill = this.#kill === undefined ? 'nowhere' : killText(this.#kill)
    if (signal !== 'SIGKILL')
      throw this.#explain(new Error(`The service ended with ${signal ?? `code ${code}`} and not by SIGKILL at ${kill}.`))
    if (!this.#output.includes(lastWords(kill))) throw this.#explain(new Error(`The service was killed, and not at ${kill}.`))
  }

  /** Throws if the service has ended, for any reason. */
  checkAlive(): void {
    if (this.#end === undefined) return
    const { signal, code } = this.#end
    throw this.#explain(new Error(`The service ended by itself, with ${signal ?? `code ${code}`}.`))
  }

  /** Asks the service to stop, and waits for its end. Throws unless it ended cleanly. */
  async stop(): Promise<void> {
    this.checkAlive()
    this.#child.kill('SIGTERM')
    const { code, signal } = await this.#within(this.#ended.promise, 'The stop of the service')
    if (code !== 0) throw this.#explain(new Error(`The service was asked to stop and ended with ${signal ?? `code ${code}`}.`))
  }

  /** Kills the process if it still runs. */
  async destroy(): Promise<void> {
    if (this.hasEnded) return
    this.#child.kill('SIGKILL')
    await this.#ended.promise
  }

  #hear(answer: Answer): void {
    if ('started' in answer) this.#started.resolve()
    else this.#onIdle?.(answer.idle)
  }

  async #within<T>(work: Promise<T>, what: string): Promise<T> {
    return await within(this.#patience, work, what).catch((error: Error) => {
      throw this.#explain(error)
    })
  }

  #explain(error: Error): Error {
    const lines = this.#output.trim().split('\n').slice(-20)
    return new Error(`${error.message} ${this.#output === '' ? 'It printed nothing.' : `Its last lines:\n  ${lines.join('\n  ')}`}`)
  }
}

function killText({ point, hit }: Kill): string {
  return `${point.name} ${hit}`
}

/** The protocol between the crash runner and a service in its own process. */

/** Names the point and the hit, as in `relay.published 2`. */
const killVariable = 'ACKORD_CRASH_AT'

/** To the service. */
interface Question {
  readonly ask: 'idle'
}

/** From the service. */
export type Answer = { readonly started: true } | { readonly idle: boolean }

/** The last output of a service that kills itself. Written synchronously, because the kill would be faster otherwise. */
function lastWords(kill: string): string {
  return `killed at ${kill}\n`
}

/** A running service. */
export interface RunningService {
  /** Whether nothing is in flight, according to `health()` of its router and its relay. */
  isIdle(): boolean
  /** Finishes the work in flight and closes every connection; the process must then end by itself. */
  stop(): Promise<void>
}

/** The part of Node's `process` that is used. */
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
 * that its environment names, stops at SIGTERM, and does not outlive its parent process.
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
    // Only the parent process has the other end of the channel.
    if ((message as Question).ask === 'idle') process.send?.({ idle: service.isIdle() })
  })
  process.send?.({ started: true })
  await terminated
  await service.stop()
  stopped = true
  // A resource that still keeps the process alive is a leak, which this detects.
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

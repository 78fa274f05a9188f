import { type ChildProcess, fork } from 'node:child_process'
import { deferred } from '../deferred.ts'
import { within } from '../scenario.ts'
import type { Kill } from './crash-points.ts'
import type { ServiceProgram } from './crash-world.ts'
import { type Answer, killVariable, lastWords, type Question } from './service-protocol.ts'

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

  /** `patience` is the milliseconds that it may take to start, to answer, to stop. */
  constructor(program: ServiceProgram, patience: number, kill?: Kill) {
    this.#kill = kill
    this.#patience = patience
    this.#child = fork(program.file, [], {
      env: { ...program.environment, [killVariable]: kill === undefined ? undefined : killText(kill) },
      // Those of the test runner are about the test runner.
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
    // Unlike `exit` it comes when all output was read.
    this.#child.on('close', (code, signal) => {
      this.#end = { code, signal }
      this.#onIdle?.(false)
      this.#ended.resolve(this.#end)
    })
  }

  /** Resolves when the service says that it has started, or has ended before it could. */
  async started(): Promise<void> {
    await this.#within(Promise.race([this.#started.promise, this.#ended.promise]), 'The start of the service')
  }

  get hasEnded(): boolean {
    return this.#end !== undefined
  }

  /** Whether it lives and has nothing in hand. */
  async isIdle(): Promise<boolean> {
    if (this.hasEnded || !this.#child.connected) return false
    const answer = deferred<boolean>()
    this.#onIdle = answer.resolve
    const question: Question = { ask: 'idle' }
    this.#child.send(question, () => {})
    return await this.#within(answer.promise, 'The answer of the service')
  }

  /** Throws unless it died as it was told to: by SIGKILL, at its point. */
  checkKilled(): void {
    const { signal, code } = this.#end ?? {}
    const kill = this.#kill === undefined ? 'nowhere' : killText(this.#kill)
    if (signal !== 'SIGKILL')
      throw this.#explain(new Error(`The service ended with ${signal ?? `code ${code}`} and not by SIGKILL at ${kill}.`))
    if (!this.#output.includes(lastWords(kill))) throw this.#explain(new Error(`The service was killed, and not at ${kill}.`))
  }

  /** Throws if it has ended, whatever it was by. */
  checkAlive(): void {
    if (this.#end === undefined) return
    const { signal, code } = this.#end
    throw this.#explain(new Error(`The service ended by itself, with ${signal ?? `code ${code}`}.`))
  }

  /** Asks it to stop, and waits for its end. Throws if that was not a clean one. */
  async stop(): Promise<void> {
    this.checkAlive()
    this.#child.kill('SIGTERM')
    const { code, signal } = await this.#within(this.#ended.promise, 'The stop of the service')
    if (code !== 0) throw this.#explain(new Error(`The service was asked to stop and ended with ${signal ?? `code ${code}`}.`))
  }

  /** Leaves nothing behind. */
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

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { ServiceProgram } from '@ackord/testkit/suites'

/** A worker in its own process, which signals can kill and suspend. */
export class WorkerProcess implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown>
  #output = ''

  constructor({ file, environment }: ServiceProgram, suspendAt?: string) {
    this.#child = fork(file, [], {
      env: { ...environment, FAULT_SUSPEND_AT: suspendAt },
      // Drops the flags of the test runner, which do not apply to the worker.
      execArgv: [],
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    })
    this.#ended = once(this.#child, 'close')
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', (chunk: Buffer) => {
        this.#output += chunk.toString()
      })
    }
  }

  /** Resolves when the worker reports that it is running. */
  async started(): Promise<void> {
    await Promise.race([once(this.#child, 'message'), this.#failed('before it worked')])
  }

  /** Resolves when the worker has suspended itself. */
  async suspended(): Promise<void> {
    const stdout = this.#child.stdout
    const isSuspended = () => this.#output.includes('suspended at ')
    while (!isSuspended())
      await Promise.race([stdout === null ? this.#ended : once(stdout, 'data'), this.#failed('and was to be suspended')])
  }

  continue(): void {
    this.#child.kill('SIGCONT')
  }

  /** Resolves when the process has exited. Throws if it ended earlier for another reason. */
  async kill(): Promise<void> {
    this.checkAlive()
    this.#child.kill('SIGKILL')
    await this.#ended
    if (this.#child.signalCode !== 'SIGKILL') throw this.#explain('was to be killed')
  }

  checkAlive(): void {
    if (this.#hasEnded) throw this.#explain('was to live')
  }

  /** Whether the worker is alive and has no message in flight. */
  async isIdle(): Promise<boolean> {
    this.checkAlive()
    const answer = once(this.#child, 'message')
    this.#child.send({ ask: 'idle' })
    const [{ idle }] = await Promise.race([answer, this.#failed('and was asked')])
    return idle
  }

  /** Asks the worker to stop. Throws if it does not exit by itself with nothing left open. */
  async stop(): Promise<void> {
    this.checkAlive()
    this.#child.kill('SIGTERM')
    await this.#ended
    if (this.#child.exitCode !== 0) throw this.#explain('was to stop')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#hasEnded) return
    this.#child.kill('SIGKILL')
    await this.#ended
  }

  get #hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  async #failed(when: string): Promise<never> {
    await this.#ended
    throw this.#explain(when)
  }

  #explain(what: string): Error {
    const { exitCode, signalCode } = this.#child
    const lines = this.#output.trim().split('\n').slice(-20).join('\n  ')
    return new Error(`A worker ended with ${signalCode ?? `code ${exitCode}`}, ${what}. Its last lines:\n  ${lines}`)
  }
}

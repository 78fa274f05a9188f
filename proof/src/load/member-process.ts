import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { MemberReport } from './member.ts'

/** A process of the run. One that ends before it is told to ends the run. */
export class MemberProcess implements AsyncDisposable {
  readonly name: string
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown>

  constructor(name: string, program: URL) {
    this.name = name
    // The collector is asked to work before the heap is looked at.
    this.#child = fork(fileURLToPath(program), [], { execArgv: ['--expose-gc'], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    this.#ended = once(this.#child, 'exit')
  }

  checkAlive(): void {
    const { exitCode, signalCode } = this.#child
    if (exitCode !== null || signalCode !== null) throw new Error(`The ${this.name} ended with ${signalCode ?? `code ${exitCode}`}.`)
  }

  async report(): Promise<MemberReport> {
    const answer = once(this.#child, 'message')
    this.#child.send('report')
    const [report] = await answer
    return report
  }

  async stop(): Promise<void> {
    this.checkAlive()
    this.#child.send('stop')
    await this.#ended
    if (this.#child.exitCode !== 0) this.checkAlive()
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    this.#child.kill('SIGKILL')
    await this.#ended
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
  }
}

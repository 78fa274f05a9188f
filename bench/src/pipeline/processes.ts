import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Answer, BrokerName, Question, Role, Setup } from './protocol.ts'

/** Milliseconds after which an answer is overdue, because the pipeline is stuck. */
const patience = 180_000

/** The client, the two services and the relays, each in a process of its own; with the in-memory broker, all in one. */
export class Processes implements AsyncDisposable {
  readonly #children: readonly { readonly roles: readonly Role[]; readonly child: ChildProcess }[]

  private constructor(roles: readonly (readonly Role[])[]) {
    const file = fileURLToPath(new URL('./process.js', import.meta.url))
    this.#children = roles.map((ofProcess) => ({ roles: ofProcess, child: fork(file, { execArgv: [] }) }))
  }

  static async start(broker: BrokerName, relays: number, prefix: string): Promise<Processes> {
    const roles: readonly Role[] = ['client', 'orders', 'shipping', ...Array.from({ length: relays }, () => 'relay' as const)]
    const processes = new Processes(broker === 'memory' ? [roles] : roles.map((role) => [role]))
    try {
      await Promise.all(
        processes.#children.map(({ child, roles: ofProcess }) => exchange(child, { broker, prefix, roles: ofProcess } satisfies Setup)),
      )
      return processes
    } catch (error) {
      await processes[Symbol.asyncDispose]()
      throw error
    }
  }

  /** Asks the process that has the role. */
  async ask(role: Role, question: Question): Promise<Answer> {
    const process = this.#children.find(({ roles }) => roles.includes(role))
    if (process === undefined) throw new Error(`No process has the role '${role}'.`)
    return await exchange(process.child, question)
  }

  /** Microseconds of processor time of all processes since they started. */
  async cpu(): Promise<number> {
    const answers = await Promise.all(this.#children.map(({ child }) => exchange(child, { ask: 'cpu' })))
    return answers.reduce((sum, { cpu = 0 }) => sum + cpu, 0)
  }

  async stop(): Promise<void> {
    await Promise.all(this.#children.map(({ child }) => exchange(child, { ask: 'stop' })))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(
      this.#children.map(async ({ child }) => {
        if (child.exitCode !== null || child.signalCode !== null) return
        const ended = once(child, 'exit')
        child.kill('SIGKILL')
        await ended
      }),
    )
  }
}

/** Sends a message and waits for its answer. Rejects if the process ends instead. */
function exchange(child: ChildProcess, message: Setup | Question): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => settle(() => reject(new Error(`No answer to ${JSON.stringify(message)}.`))), patience)
    const settle = (end: () => void) => {
      clearTimeout(timer)
      child.off('exit', onExit)
      child.off('message', onMessage)
      end()
    }
    const onExit = () => settle(() => reject(new Error('A process of the benchmark has ended.')))
    const onMessage = (answer: unknown) => {
      const { error } = answer as Answer
      settle(() => (error === undefined ? resolve(answer as Answer) : reject(new Error(error))))
    }
    child.on('exit', onExit)
    child.on('message', onMessage)
    child.send(message)
  })
}

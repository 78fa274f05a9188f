import type { CrashWorld } from '@ackord/testkit/suites'
import { Outcome } from '../outcome.ts'
import { WorkerProcess } from './worker-process.ts'

/** Workers in separate processes on one world: a store and RabbitMQ. */
export class WorkerRun implements AsyncDisposable {
  readonly outcome: Outcome
  readonly world: CrashWorld
  readonly #workers = new Set<WorkerProcess>()

  constructor(world: CrashWorld) {
    this.world = world
    this.outcome = new Outcome(
      (id) => world.eventOf(id),
      () => world.observe(),
    )
  }

  async start(suspendAt?: string): Promise<WorkerProcess> {
    const worker = new WorkerProcess(this.world.program, suspendAt)
    this.#workers.add(worker)
    await worker.started()
    return worker
  }

  /** Sends `count` new commands, every third of them twice. */
  async send(count: number): Promise<void> {
    const fresh = this.outcome.expect(count)
    await this.world.send([...fresh, ...fresh.filter((_, index) => index % 3 === 0)])
  }

  async kill(worker: WorkerProcess): Promise<void> {
    await worker.kill()
    this.#workers.delete(worker)
  }

  /** Checks that all commands and one more complete, that the workers stop, and that nothing unexpected is left. Resolves to a note for the table. */
  async finish(mostDuplicates: number): Promise<string> {
    await this.#untilIdle()
    await this.send(1)
    await this.#untilIdle()
    for (const worker of this.#workers) await worker.stop()
    // Messages that were in flight are back at the broker before the test checks what is left there.
    await this.outcome.until(() => this.world.knowsOf(0))
    await this.outcome.check(mostDuplicates)
    return await this.outcome.note()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const worker of this.#workers) await worker[Symbol.asyncDispose]()
    await this.world[Symbol.asyncDispose]()
  }

  /** Messages that are delivered and not acked are visible only in the workers. */
  async #untilIdle(): Promise<void> {
    await this.outcome.until(async (seen) => {
      if (!this.outcome.isDone(seen)) return false
      for (const worker of this.#workers) if (!(await worker.isIdle())) return false
      return true
    })
  }
}

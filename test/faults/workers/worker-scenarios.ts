import type { CrashScenario } from '@ackord/testkit/suites'
import { WorkerRun } from './worker-run.ts'

export interface WorkerScenarioOptions {
  /** When the kills end: after this number of kills, or after this many milliseconds. */
  readonly until: { readonly kills: number } | { readonly milliseconds: number }
  /** The probes at which a worker is suspended until others have taken over its work. */
  readonly suspendAt: readonly SuspendPoint[]
}

/** The relay holds a claim that is published and not settled; or, where messages are leased too, the handler is about to commit. */
export type SuspendPoint = 'relay.published' | 'transaction.beforeCommit'

export function workerScenarios({ until, suspendAt }: WorkerScenarioOptions): readonly CrashScenario[] {
  return [killAgainAndAgain(until), ...suspendAt.map((point) => (point === 'relay.published' ? suspendedRelay : suspendedHandler))]
}

/** Repeatedly kills the older of two workers in the middle of its work, and starts a new one. */
function killAgainAndAgain(until: WorkerScenarioOptions['until']): CrashScenario {
  return {
    name: 'one of two workers is killed, again and again',
    async run(open) {
      await using run = new WorkerRun(await open())
      const workers = [await run.start(), await run.start()]
      const start = performance.now()
      const isOver = (kills: number) => ('kills' in until ? kills >= until.kills : performance.now() - start >= until.milliseconds)
      let kills = 0
      while (!isOver(kills)) {
        const before = (await run.world.observe()).applied.length
        await run.send(20)
        await run.outcome.until(({ applied }) => applied.length > before)
        const oldest = workers.shift()
        if (oldest === undefined) throw new Error('Expected two workers.')
        await run.kill(oldest)
        kills += 1
        workers.push(await run.start())
      }
      const note = await run.finish(kills * run.world.batchSize)
      return `${kills} kills, ${note}`
    },
  }
}

/** The relay resumes after another one has published and settled the batch that it had published. */
const suspendedRelay: CrashScenario = {
  name: 'a relay is suspended past its lease between publish and settle, and comes back',
  async run(open) {
    await using run = new WorkerRun(await open())
    const sleeper = await run.start('relay.published')
    await run.send(6)
    await sleeper.suspended()
    await run.start()
    await run.send(20)
    await run.outcome.until(async ({ outbox }) => outbox.leased + outbox.ready === 0 && (await run.outcome.duplicates()) > 0)
    sleeper.continue()
    return await run.finish(run.world.batchSize)
  },
}

/** The worker resumes after another one has handled another delivery of its message. */
const suspendedHandler: CrashScenario = {
  name: 'a handler is suspended past its lease before its commit, and comes back',
  async run(open) {
    await using run = new WorkerRun(await open())
    const sleeper = await run.start('transaction.beforeCommit')
    const [id = ''] = run.outcome.expect(1)
    // More copies than its prefetch: otherwise the broker would deliver all of them to this worker and none to the other.
    await run.world.send(Array.from({ length: 12 }, () => id))
    await sleeper.suspended()
    await run.start()
    await run.outcome.until(({ applied }) => applied.includes(id))
    sleeper.continue()
    return await run.finish(run.world.batchSize)
  },
}

import { setTimeout as pause } from 'node:timers/promises'
import type { CrashObservation } from '@ackord/testkit/suites'
import { type CrashExpectation, duplicatesOf, faultsOf, missingOf, problemsOf } from '../../packages/testkit/src/crash/process/crash-run.ts'

/** Milliseconds without progress after which the test fails; longer than every lease and timeout in these tests. */
const patience = 20_000
const lookInterval = 20

/**
 * The required state after every fault: each command applied once, in the inbox once, its event published under one id, nothing leased or pending.
 * Uses the functions of the crash runner.
 */
export class Outcome {
  readonly commands: Set<string> = new Set()
  readonly #eventOf: (command: string) => string
  readonly #observe: () => Promise<CrashObservation>

  constructor(eventOf: (command: string) => string, observe: () => Promise<CrashObservation>) {
    this.#eventOf = eventOf
    this.#observe = observe
  }

  /** The ids of `count` new commands. */
  expect(count: number): string[] {
    const fresh = Array.from({ length: count }, (_, index) => `m-${this.commands.size + index + 1}`)
    for (const id of fresh) this.commands.add(id)
    return fresh
  }

  /** Polls until the condition holds. An observation that fails because the server is down is repeated later. */
  async until(isSo: (seen: CrashObservation) => boolean | Promise<boolean>): Promise<void> {
    let last = ''
    let changedAt = performance.now()
    for (;;) {
      const seen = await this.#observe().catch((error: Error) => error)
      const isThere = !(seen instanceof Error)
      if (isThere && (await isSo(seen))) return
      const state = isThere ? progressOf(seen) : seen.message
      const now = performance.now()
      if (state !== last) changedAt = now
      else if (now - changedAt > patience) throw new Error(`Nothing has changed for ${patience} ms: ${this.#lacks(seen)}.`)
      last = state
      await pause(lookInterval)
    }
  }

  async untilDone(): Promise<void> {
    await this.until((seen) => {
      refuse(faultsOf(this.#expected(Number.POSITIVE_INFINITY), seen))
      return this.isDone(seen)
    })
  }

  isDone(seen: CrashObservation): boolean {
    return missingOf(this.#expected(), seen).length === 0
  }

  /** Throws unless every expected effect exists, and no other. */
  async check(mostDuplicates: number): Promise<void> {
    refuse(problemsOf(this.#expected(mostDuplicates), await this.#observe()))
  }

  async duplicates(): Promise<number> {
    return duplicatesOf(await this.#observe())
  }

  async note(): Promise<string> {
    return `${this.commands.size} once, ${await this.duplicates()} published twice`
  }

  #expected(most = Number.POSITIVE_INFINITY): CrashExpectation {
    return { commands: this.commands, eventOf: this.#eventOf, duplicates: { least: 0, most } }
  }

  #lacks(seen: CrashObservation | Error): string {
    if (seen instanceof Error) return `the store does not answer (${seen.message})`
    const missing = missingOf(this.#expected(), seen)
    return missing.length === 0 ? 'everything is there, and something else is waited for' : missing.join('; ')
  }
}

/** Only counts that grow: a relay that keeps retrying without success makes no progress. */
function progressOf({ applied, inbox, published, waiting }: CrashObservation): string {
  return `${applied.length} ${inbox.length} ${new Set(published).size} ${waiting}`
}

function refuse(problems: readonly string[]): void {
  if (problems.length > 0) throw new Error(`${problems.join('; ')}.`)
}

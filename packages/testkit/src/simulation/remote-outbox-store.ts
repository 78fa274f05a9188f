import { hints } from '@ackord/core/internal'
import type { Claim, ClaimedRecord, ClaimOptions, OutboxAdmin, OutboxCapabilities, OutboxStore, Outcome, RecordTaker } from '@ackord/outbox'
import type { Network } from './network.ts'
import type { OutboxServer } from './outbox-server.ts'
import type { SimulatedDatabase } from './simulated-database.ts'
import type { SimulatedProcess } from './simulated-process.ts'
import type { Operation } from './simulation-plan.ts'

export interface RemoteOutboxStoreOptions {
  readonly server: OutboxServer
  readonly database: SimulatedDatabase
  readonly network: Network
  readonly process: SimulatedProcess
  readonly order: 'none' | 'perKey'
  /** Whether the process takes what it has committed itself. */
  readonly hotPath: boolean
  /** Off: durations are turned into instants by the clock of the process. */
  readonly usesOwnClock: boolean
  /** Off: a call that fails is made again, until it works. */
  readonly waitsForStore: boolean
}

/** The outbox as a relay has it: every call goes over the network. */
export class RemoteOutboxStore implements OutboxStore, Pick<OutboxAdmin, 'deletePublished'> {
  readonly capabilities: OutboxCapabilities
  readonly #options: RemoteOutboxStoreOptions
  #taker: RecordTaker | undefined

  constructor(options: RemoteOutboxStoreOptions) {
    this.#options = options
    this.capabilities = { order: options.order, delay: true, preLease: options.hotPath }
  }

  /** Who takes what this process commits. */
  get taker(): RecordTaker | undefined {
    return this.#taker
  }

  attach(taker: RecordTaker): () => void {
    if (this.#options.hotPath) this.#taker = taker
    return () => {
      this.#taker = undefined
    }
  }

  claim(options: ClaimOptions): Promise<readonly ClaimedRecord[]> {
    const { server } = this.#options
    const lease = this.#duration(options.lease)
    return this.#call('claim', `up to ${options.limit}`, () => server.claim({ ...options, lease: lease() }))
  }

  renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]> {
    const { server } = this.#options
    return this.#call('renew', idsOf(claims), () => server.renew(claims, lease))
  }

  release(claims: readonly Claim[]): Promise<void> {
    const { server } = this.#options
    return this.#call('release', idsOf(claims), () => server.release(claims))
  }

  settle(outcomes: readonly Outcome[]): Promise<readonly ('applied' | 'lost')[]> {
    const { server } = this.#options
    const results = outcomes.map(({ id, result }) => `${id} ${result}`).join(', ')
    const delays = outcomes.map((outcome) => (outcome.result === 'failed' ? this.#duration(outcome.retryAfter) : undefined))
    return this.#call('settle', results, () =>
      server.settle(outcomes.map((outcome, index) => ({ ...outcome, ...retryAfter(delays[index]) }))),
    )
  }

  leave(): Promise<void> {
    const { server } = this.#options
    return this.#call('leave', '', () => server.leave())
  }

  deletePublished(options: { readonly olderThan: number; readonly limit: number }): Promise<number> {
    const { server } = this.#options
    return this.#call('cleanOutbox', '', () => server.deletePublished(options))
  }

  wakeUps({ signal }: { readonly signal: AbortSignal }): AsyncIterable<void> {
    const { database, network, process } = this.#options
    return hints((hint) => database.listen(() => network.tell(process, hint)), signal)
  }

  async #call<T>(operation: Operation, what: string, serve: () => Promise<T>): Promise<T> {
    const { network, process, waitsForStore } = this.#options
    for (;;) {
      try {
        return await network.call(process, operation, what, serve)
      } catch (error) {
        if (waitsForStore) throw error
      }
    }
  }

  /** What a duration has become when the server gets it. */
  #duration(duration: number): () => number {
    const { process, database, usesOwnClock } = this.#options
    if (usesOwnClock) return () => duration
    const until = process.runtime.now() + duration
    return () => Math.max(0, until - database.scheduler.now())
  }
}

function retryAfter(delay: (() => number) | undefined): { readonly retryAfter?: number } {
  return delay === undefined ? {} : { retryAfter: delay() }
}

function idsOf(claims: readonly Claim[]): string {
  return claims.map(({ id }) => id).join(', ')
}

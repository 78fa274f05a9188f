import { type Context, isAckordError } from '@ackord/core'
import type { IdempotencyClaimOptions, IdempotencyKey, IdempotencyStore, IdempotentWriteOptions, StoredAnswer } from '@ackord/outbox'
import {
  type IdempotencyWorld,
  type OpenIdempotencyWorld,
  openMemoryIdempotencyWorld,
} from '../../../src/suites/idempotency/idempotency-world.ts'
import { type Mutant, mutantsOf } from '../../support/mutant.ts'

export type Store = IdempotencyStore<unknown>
export type Work = (transaction: unknown, context: Context) => Promise<StoredAnswer>

/** Returns the parts of a world that a mutant replaces. Called once per world, with the real one. */
export type DecorateWorld = (world: IdempotencyWorld) => Partial<IdempotencyWorld>

/** Opens worlds of the in-memory store, decorated. All processes have the defect. */
function decoratedIdempotency(decorate: DecorateWorld): OpenIdempotencyWorld {
  return async () => {
    const world = await openMemoryIdempotencyWorld()
    const decorated = { ...world, ...decorate(world) }
    return { ...decorated, another: async () => decorated }
  }
}

/** The mutants that one scenario must catch. */
export function brokenIdempotency(caughtBy: string, defects: Readonly<Record<string, DecorateWorld>>): Mutant<OpenIdempotencyWorld>[] {
  return mutantsOf(caughtBy, defects, decoratedIdempotency)
}

/** Replaces methods of the store. */
export function storing(change: (real: Store, known: KnownClaims, world: IdempotencyWorld) => Partial<Store>): DecorateWorld {
  return (world) => {
    const known = new KnownClaims(world.store)
    return { store: { ...known.store, ...change(known.store, known, world) } }
  }
}

/** Changes what the store is called with. */
export function rewriting(change: {
  readonly key?: (key: IdempotencyKey) => IdempotencyKey
  readonly claim?: (options: IdempotencyClaimOptions) => IdempotencyClaimOptions
  readonly write?: (options: IdempotentWriteOptions) => IdempotentWriteOptions
  readonly work?: (work: Work) => Work
}): DecorateWorld {
  const same = <T>(value: T) => value
  const { key: keyOf = same, claim: claimOf = same, write: writeOf = same, work: workOf = same } = change
  return storing((real) => ({
    claim: (key, options) => real.claim(keyOf(key), claimOf(options)),
    write: (key, token, work, options) => real.write(keyOf(key), token, workOf(work), writeOf(options)),
    release: (key, token) => real.release(keyOf(key), token),
  }))
}

/** Changes the answers that are found. */
export function answering(change: (answer: StoredAnswer) => StoredAnswer): DecorateWorld {
  return storing((real) => ({
    async claim(key, options) {
      const found = await real.claim(key, options)
      return found.state === 'answered' ? { state: 'answered', answer: change(found.answer) } : found
    },
  }))
}

interface KnownClaim {
  readonly fingerprint: string
  readonly token: string
  answered: boolean
}

/** What the mutants know of the claims of a store. */
export class KnownClaims {
  readonly store: Store
  readonly #claims = new Map<string, KnownClaim>()

  constructor(real: Store) {
    this.store = {
      claim: async (key, options) => {
        const found = await real.claim(key, options)
        if (found.state === 'claimed') {
          this.#claims.set(nameOf(key), { fingerprint: options.fingerprint, token: found.token, answered: false })
        }
        return found
      },
      write: async (key, token, work, options) => {
        const answer = await real.write(key, token, work, options)
        const known = this.#claims.get(nameOf(key))
        if (known !== undefined) known.answered = true
        return answer
      },
      release: (key, token) => real.release(key, token),
    }
  }

  /** The latest claim of the key. */
  of(key: IdempotencyKey): KnownClaim | undefined {
    return this.#claims.get(nameOf(key))
  }
}

/** Commits the work although the claim is lost: under another key. */
export const writesLostClaims: DecorateWorld = storing((real) => {
  let count = 0
  return {
    async write(key, token, work, options) {
      try {
        return await real.write(key, token, work, options)
      } catch (error) {
        if (!isAckordError(error, 'ACKORD_CLAIM_LOST')) throw error
        count += 1
        const spare = { scope: 'spare', key: `${count}` }
        const found = await real.claim(spare, { fingerprint: 'spare', lease: 60_000 })
        if (found.state !== 'claimed') throw error
        return await real.write(spare, found.token, work, options)
      }
    },
  }
})

function nameOf({ scope, key }: IdempotencyKey): string {
  return JSON.stringify([scope, key])
}

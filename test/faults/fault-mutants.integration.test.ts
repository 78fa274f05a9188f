import { type Middleware, outside } from '@ackord/core'
import { runScenario } from '@ackord/testkit/suites'
import { describe, expect, it } from 'vitest'
import { isProof } from '../../scripts/test-depth.mjs'
import { postgresStore } from './stores/postgres-store.ts'
import type { ServerStore } from './stores/store.ts'
import { storeScenarios } from './stores/store-scenarios.ts'

/** A service with a deliberate bug, the fault that must reveal it, and the expected error. */
interface FaultMutant {
  readonly name: string
  readonly caughtBy: string
  readonly says: RegExp
  /** Whether the bug shows only as a timeout, which takes long. */
  readonly waits: boolean
  readonly mutate: (store: ServerStore) => Partial<ServerStore>
}

const mutants: readonly FaultMutant[] = [
  {
    name: 'the business write is not in the transaction',
    caughtBy: 'cut at COMMIT, which is lost',
    says: /commands applied more than once/,
    waits: false,
    mutate: (store) => ({ save: (id) => outside(() => store.save(id)) }),
  },
  {
    name: 'a message whose transaction failed is acked',
    caughtBy: 'cut at BEGIN, which is lost',
    says: /commands lost/,
    waits: true,
    mutate: (store) => ({ middleware: swallowErrors(store.middleware) }),
  },
  {
    name: 'outcomes of the relay are thrown away',
    caughtBy: 'a slow connection',
    says: /left in the outbox|duplicates at the broker/,
    waits: true,
    mutate: ({ outbox }) => ({ outbox: { ...outbox, settle: async (outcomes) => outcomes.map(() => 'applied') } }),
  },
  {
    name: 'the fault never happens',
    caughtBy: 'cut at COMMIT, its answer is lost',
    says: /The fault did not happen/,
    waits: false,
    mutate: () => ({ recognise: () => () => false }),
  },
]

describe('the faults of a store bring to light that', () => {
  it.each(mutants.filter(({ waits }) => isProof || !waits))('$name', async ({ caughtBy, says, mutate }) => {
    const scenario = storeScenarios(postgresStore).find(({ name }) => name === caughtBy)
    if (scenario === undefined) throw new Error(`There is no scenario '${caughtBy}'.`)
    const { result, error } = await runScenario(scenario, async (options) => {
      const store = await postgresStore.open(options)
      return { ...store, ...mutate(store) }
    })
    expect(result).toBe('failed')
    expect(String(error)).toMatch(says)
  })
})

function swallowErrors(middleware: Middleware): Middleware {
  return (next) => {
    const process = middleware(next)
    return async function swallowing(message, context) {
      try {
        return await process(message, context)
      } catch {
        return []
      }
    }
  }
}

import { type NewOutboxRecord, Relay } from '@ackord/outbox'
import { VirtualRuntime } from '../helpers/virtual-runtime.ts'
import type { Mutant } from '../run/scenario.ts'
import type { OpenOutboxWorld } from '../suites/outbox/outbox-world.ts'
import type { RelayPorts } from '../suites/relay/relay-world.ts'
import { type OrderRules, orderRules } from './order-rules.ts'
import { RuledOrderedData, RuledOrderedStore } from './ruled-ordered-store.ts'

/** This library's relay on stores that break these rules; with none they keep the contract. */
export function ruledOrderPorts(broken: Partial<OrderRules> = {}): RelayPorts {
  return { openStore: ruledOrderedWorld({ ...orderRules, ...broken }), createRelay: (store, setup) => new Relay(store, setup) }
}

/** Mutants, by what is wrong with them. */
export function brokenOrder(caughtBy: string, mutants: Readonly<Record<string, Partial<OrderRules>>>): Mutant<RelayPorts>[] {
  return Object.entries(mutants).map(([name, rules]) => ({ name, caughtBy, open: ruledOrderPorts(rules) }))
}

function ruledOrderedWorld(rules: OrderRules): OpenOutboxWorld {
  return async ({ retain }) => {
    const runtime = new VirtualRuntime()
    const data = new RuledOrderedData()
    const store = new RuledOrderedStore(rules, runtime, retain, data)
    let places = 0
    const open = () => {
      const pending: { readonly place: number; readonly records: readonly NewOutboxRecord[] }[] = []
      return {
        async append(records: readonly NewOutboxRecord[]) {
          pending.push({ place: places + 1, records })
          places += records.length
        },
        async commit() {
          for (const { place, records } of pending) store.insert(records, rules.placesAtCommit ? undefined : place)
        },
        async rollback() {},
      }
    }
    return {
      store,
      another: async () => new RuledOrderedStore(rules, runtime, retain, data),
      async transaction(work) {
        const transaction = open()
        await work(transaction)
        await transaction.commit()
      },
      openTransaction: async () => open(),
      advance: (duration) => runtime.advance(duration),
      [Symbol.asyncDispose]: async () => {},
    }
  }
}

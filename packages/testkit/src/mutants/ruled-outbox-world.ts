import type { NewOutboxRecord } from '@ackord/outbox'
import { VirtualRuntime } from '../helpers/virtual-runtime.ts'
import type { Mutant } from '../run/scenario.ts'
import type { OpenOutboxWorld, OutboxTransaction } from '../suites/outbox/outbox-world.ts'
import { type OutboxRules, outboxRules, type RuledRow } from './outbox-rules.ts'
import { RuledOutboxStore } from './ruled-outbox-store.ts'

/** Opens worlds on stores that break these rules; with none it is a store that keeps the contract. */
export function ruledOutboxWorld(broken: Partial<OutboxRules> = {}): OpenOutboxWorld {
  const rules = { ...outboxRules, ...broken }
  return async ({ retain }) => {
    const runtime = new VirtualRuntime()
    const rows = new Map<string, RuledRow>()
    const options = { rules, runtime, retain }
    const store = new RuledOutboxStore(options, rows)
    return {
      store,
      another: async () => new RuledOutboxStore(options, rules.sharesData ? rows : new Map()),
      async transaction(work) {
        const pending: NewOutboxRecord[] = []
        const cancelled: RuledRow[] = []
        const state = { ended: false }
        try {
          await work(transactionOf(store, rules, { pending, cancelled }, state))
        } finally {
          state.ended = true
        }
        store.remove(cancelled)
        store.insert(pending)
      },
      advance: (duration) => runtime.advance(duration),
      [Symbol.asyncDispose]: async () => {},
    }
  }
}

/** Mutants, by what is wrong with them. */
export function brokenOutbox(caughtBy: string, mutants: Readonly<Record<string, Partial<OutboxRules>>>): Mutant<OpenOutboxWorld>[] {
  return Object.entries(mutants).map(([name, rules]) => ({ name, caughtBy, open: ruledOutboxWorld(rules) }))
}

function transactionOf(
  store: RuledOutboxStore,
  rules: OutboxRules,
  { pending, cancelled }: { readonly pending: NewOutboxRecord[]; readonly cancelled: RuledRow[] },
  state: { readonly ended: boolean },
): OutboxTransaction {
  return {
    async cancel(references) {
      const rows = store.cancellable(references)
      if (rules.cancelsInTransaction) cancelled.push(...rows)
      else store.remove(rows)
      const own = pending.filter(
        ({ destination, message, delay = 0 }) =>
          delay > 0 && rules.cancelsOwn && rules.isNamed(destination, message.attributes, references),
      )
      for (const record of own) pending.splice(pending.indexOf(record), 1)
      return rules.cancelCount(rows.length + own.length)
    },
    async append(records) {
      if (rules.refusesEmptyLists && records.length === 0) throw new Error('nothing to append')
      if (state.ended && rules.refusesEndedTransactions) throw new Error('the transaction has ended')
      const bad = records.findIndex(({ message }) => message.id?.includes('\0') === true)
      if (bad !== -1 && !rules.appendsWhole) pending.push(...records.slice(0, bad))
      if (bad !== -1) throw new Error('an id with a NUL character cannot be stored')
      if (state.ended || !rules.appendsInTransaction) store.insert(records)
      else pending.push(...records)
    },
    async savepoint(work) {
      const start = pending.length
      try {
        await work()
      } catch (error) {
        if (rules.honoursSavepoints) pending.length = start
        throw error
      }
      if (!rules.honoursSavepoints) store.insert(pending.splice(start))
    },
  }
}

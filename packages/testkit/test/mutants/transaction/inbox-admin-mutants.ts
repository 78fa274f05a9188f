import type { InboxAdmin } from '@ackord/outbox'
import type { OpenTransactionWorld } from '../../../src/suites/transaction/transaction-world.ts'
import type { Mutant } from '../../support/mutant.ts'
import { brokenStore, type DecorateStore } from './decorated-memory-store.ts'

/** Replaces methods of the inbox for operators. */
function administering(change: (real: InboxAdmin) => Partial<InboxAdmin>): DecorateStore {
  return (_world, { inbox }) => ({
    inbox: { find: (id, query) => inbox.find(id, query), forget: (id, which) => inbox.forget(id, which), ...change(inbox) },
  })
}

const everyConsumer = ['orders', 'billing', 'shipping']

/** One mutant or more per scenario of the inbox for operators. */
export const inboxAdminMutants: readonly Mutant<OpenTransactionWorld>[] = [
  ...brokenStore('finds a message that was handled, and says when, or until when it is remembered', {
    'nothing is found': administering(() => ({ find: async () => [] })),
    'the instant is in seconds': administering((real) => ({
      find: async (id, query) =>
        (await real.find(id, query)).map((entry) => ({ ...entry, handledAt: Math.round((entry.handledAt ?? 0) / 1000) })),
    })),
    'a handled message is in progress': administering((real) => ({
      find: async (id, query) => (await real.find(id, query)).map((entry) => ({ ...entry, state: 'inProgress' })),
    })),
  }),
  ...brokenStore('finds nothing of a message that failed, or that another consumer, source or id handled', {
    'the consumer is ignored': administering((real) => ({ find: (id, query) => real.find(id, { source: query?.source }) })),
    'the source is ignored': administering((real) => ({ find: (id, query) => real.find(id, { consumer: query?.consumer }) })),
    'ids are compared without case': administering((real) => ({ find: (id, query) => real.find(id.toLowerCase(), query) })),
  }),
  ...brokenStore('a forgotten message is handled again, and remembered again', {
    'nothing is forgotten': administering((real) => ({ forget: async (id, which) => (await real.find(id, which)).length })),
    'the message is hidden from operators only': administering((real) => {
      const hidden = new Set<string>()
      return {
        find: async (id, query) => (hidden.has(id) ? [] : await real.find(id, query)),
        forget: async (id, which) => {
          hidden.add(id)
          return (await real.find(id, which)).length
        },
      }
    }),
  }),
  ...brokenStore('forgets neither another consumer, source nor id, and counts what it has forgotten', {
    'every consumer forgets it': administering((real) => ({
      forget: async (id, { source, consumer }) => {
        const count = await real.forget(id, { consumer, source })
        for (const other of everyConsumer) await real.forget(id, { consumer: other, source })
        return count
      },
    })),
    'every source is forgotten': administering((real) => ({
      forget: async (id, { source, consumer }) => {
        const count = await real.forget(id, { consumer, source })
        await real.forget(id, { consumer })
        return count
      },
    })),
    'the number is always one': administering((real) => ({
      forget: async (id, which) => {
        await real.forget(id, which)
        return 1
      },
    })),
  }),
  ...brokenStore('finds every consumer and source of an id, in this order', {
    'only the first entry is found': administering((real) => ({ find: async (id, query) => (await real.find(id, query)).slice(0, 1) })),
    'the order is reversed': administering((real) => ({ find: async (id, query) => (await real.find(id, query)).toReversed() })),
    'the filter is ignored if it has no consumer': administering((real) => ({
      find: (id, query) => real.find(id, query?.consumer === undefined ? {} : query),
    })),
  }),
  ...brokenStore('forgets every source of an id if none is named, for one consumer', {
    'only the first source is forgotten': administering((real) => ({
      forget: async (id, which) => {
        const [first] = await real.find(id, which)
        return first === undefined ? 0 : await real.forget(id, { ...which, source: first.source })
      },
    })),
    'every consumer forgets it': administering((real) => ({
      forget: async (id, { consumer, source }) => {
        const count = await real.forget(id, { consumer, source })
        for (const other of everyConsumer) await real.forget(id, { consumer: other, source })
        return count
      },
    })),
  }),
]

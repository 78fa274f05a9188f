import type { ClaimedRecord, NewOutboxRecord, OutboxRecord } from '@ackord/outbox'
import { Relay } from '@ackord/outbox'
import { openOrderedMemoryOutboxWorld } from '../../../src/suites/outbox/outbox-world.ts'
import type { RelayPorts } from '../../../src/suites/relay/relay-world.ts'
import { type Mutant, mutantsOf } from '../../support/mutant.ts'
import { type Decorate, decoratedOutbox, recordsOf, viewsOf } from '../outbox/decorated-outbox.ts'

/** The relay on the in-memory store with order per key, decorated. */
function decoratedOrderPorts(decorate: Decorate): RelayPorts {
  return { openStore: decoratedOutbox(decorate, openOrderedMemoryOutboxWorld), createRelay: (store, setup) => new Relay(store, setup) }
}

/** The ordering mutants that one scenario must catch. */
export function brokenOrder(caughtBy: string, defects: Readonly<Record<string, Decorate>>): Mutant<RelayPorts>[] {
  return mutantsOf(caughtBy, defects, decoratedOrderPorts)
}

/**
 * The store sees other ordering keys or destinations than its callers: `change` is applied to each record that is appended, and undone in what claims and
 * operators see. So the real store orders the records by a wrong rule. A record that a claim does not ask for holds up those behind it.
 */
export function orderingAs(change: (record: NewOutboxRecord) => NewOutboxRecord): Decorate {
  return () => {
    const originals = new Map<string, NewOutboxRecord>()
    /** The attribute survives `rearm()`, unlike a reference to the message. */
    const mark = 'originalrecord'
    const restore = <R extends ClaimedRecord | OutboxRecord>(stored: R): R => {
      const original = originals.get(String(stored.message.attributes[mark]))
      return original === undefined ? stored : { ...stored, destination: original.destination, message: original.message }
    }
    return {
      transaction: (transaction) => ({
        append: (records) =>
          transaction.append(
            recordsOf(records).map((record) => {
              const name = String(originals.size)
              originals.set(name, record)
              const { message, ...rest } = change(record)
              return { ...rest, message: message.withAttributes({ [mark]: name }) }
            }),
          ),
      }),
      store: (store) => ({
        ...viewsOf(store, restore),
        async claim({ destinations, except, ...options }) {
          const claimed = await store.claim(options)
          const heldUp = new Set<unknown>()
          const wanted = claimed.filter((stored) => {
            const { partitionkey } = stored.message.attributes
            const { destination } = restore(stored)
            if (destinations?.includes(destination) === false || except?.includes(destination) === true) heldUp.add(partitionkey)
            return !heldUp.has(partitionkey)
          })
          await store.release(claimed.filter((stored) => !wanted.includes(stored)))
          return wanted.map(restore)
        },
      }),
    }
  }
}

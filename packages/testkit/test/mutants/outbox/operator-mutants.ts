import type { OutboxAdmin, OutboxFilter, OutboxRecord, OutboxReference } from '@ackord/outbox'
import type { OpenOutboxWorld } from '../../../src/suites/outbox/outbox-world.ts'
import type { Mutant } from '../../support/mutant.ts'
import {
  allRecords,
  brokenOutbox,
  type Decorate,
  LatestClaims,
  type Outbox,
  overriding,
  rearming,
  removeRecords,
  viewsOf,
} from './decorated-outbox.ts'

/** `park()` ignores the ids of which `isParked` says no. */
function parking(isParked: (record: OutboxRecord) => boolean): Decorate {
  return overriding((store) => ({
    async park(ids, reason) {
      const records = (await allRecords(store)).filter(({ id }) => ids.includes(id))
      return await store.park(
        records.filter(isParked).map(({ id }) => id),
        reason,
      )
    },
  }))
}

/** `cancel()` removes these records as well. */
function cancellingAlso(isCancelled: (record: OutboxRecord) => boolean): Decorate {
  return ({ world }) => {
    const latest = new LatestClaims()
    return {
      store: (store) => ({ claim: (options) => latest.claim(store, options) }),
      transaction: (transaction) => ({
        async cancel(references) {
          const also = (await allRecords(world.store)).filter((record) => isCancelled(record) && isNamed(record, references))
          await world.store.settle(latest.impersonating(also.map(({ id }) => ({ id, token: '', result: 'published' }))))
          await removeRecords(
            world.store,
            also.map(({ id }) => id),
          )
          return ((await transaction.cancel?.(references)) ?? 0) + also.length
        },
      }),
    }
  }
}

/** `cancel()` is called with other references. */
function cancellingOthers(
  change: (references: readonly OutboxReference[], records: readonly OutboxRecord[]) => readonly OutboxReference[],
): Decorate {
  return ({ world }) => ({
    transaction: (transaction) => ({
      cancel: async (references) => await transaction.cancel?.(change(references, await allRecords(world.store))),
    }),
  })
}

/** `deletePublished()` deletes other records. Leased ones cannot be deleted this way. */
function deleting(isDeleted: (record: OutboxRecord, before: number) => boolean): Decorate {
  return ({ now }) => ({
    store: (store) => ({
      async deletePublished({ olderThan, limit }) {
        const old = (await allRecords(store)).filter((record) => isDeleted(record, now() - olderThan))
        return await removeRecords(
          store,
          old.slice(0, limit).map(({ id }) => id),
        )
      },
    }),
  })
}

const rearmingPublishedToo = overriding((store) => ({
  async rearm(which, edit, options) {
    const published = await store.rearm(which, edit, { ...options, state: 'published' })
    return published + (await store.rearm(which, edit, { ...options, state: 'parked' }))
  },
}))

/** Stores that mislead their operators, or delete too much. */
export const operatorMutants: readonly Mutant<OpenOutboxWorld>[] = [
  ...brokenOutbox('rearm makes a parked record ready again and resets its attempts', {
    'rearm keeps the attempts': rearming((which, edit, options) => [which, edit, { ...options, keepAttempts: true }]),
  }),
  ...brokenOutbox('rearm is idempotent and changes only parked records', {
    'rearm takes any record': () => {
      const latest = new LatestClaims()
      return {
        store: (store) => ({
          claim: (options) => latest.claim(store, options),
          async rearm(which, edit, options) {
            const ids = 'ids' in which ? which.ids : []
            await store.settle(latest.impersonating(ids.map((id) => ({ id, token: '', result: 'parked', error: '' }))))
            await store.park(ids, '')
            return await store.rearm(which, edit, options)
          },
        }),
      }
    },
  }),
  ...brokenOutbox('rearm can edit: another destination, other data, attributes added and replaced', {
    'the edit is ignored': rearming((which, _, options) => [which, {}, options]),
    'edited attributes replace all others': overriding((store) => ({
      async rearm(which, edit = {}, options) {
        if (edit.attributes === undefined) return await store.rearm(which, edit, options)
        const names = (await allRecords(store)).flatMap(({ message }) => Object.keys(message.attributes))
        const removed = Object.fromEntries(names.filter((name) => name !== 'id' && name !== 'type').map((name) => [name, undefined]))
        return await store.rearm(which, { ...edit, attributes: { ...removed, ...edit.attributes } }, options)
      },
    })),
  }),
  ...brokenOutbox('rearm by filter selects the parked records that match, and no others', {
    'the filter is ignored': rearming((which, edit, options) => ['ids' in which ? which : { filter: {} }, edit, options]),
    'a filter takes records in any state': overriding((store) => ({
      async rearm(which, edit, options) {
        if ('filter' in which) await store.park(await idsMatching(store, which.filter), '')
        return await store.rearm(which, edit, options)
      },
    })),
  }),
  ...brokenOutbox('rearm can keep the attempts and delay the records', {
    'attempts are always set to 0': rearming((which, edit, options) => [which, edit, { ...options, keepAttempts: false }]),
    'the delay is ignored': rearming((which, edit, options) => [which, edit, { ...options, delay: 0 }]),
  }),
  ...brokenOutbox('park stops ready and waiting records from being published, and changes no others', {
    'park takes leased records': () => {
      const latest = new LatestClaims()
      return {
        store: (store) => ({
          claim: (options) => latest.claim(store, options),
          async park(ids, reason) {
            const answers = await store.settle(latest.impersonating(ids.map((id) => ({ id, token: '', result: 'parked', error: reason }))))
            return (await store.park(ids, reason)) + answers.filter((answer) => answer === 'applied').length
          },
        }),
      }
    },
    'park takes parked records again': overriding((store) => ({
      async park(ids, reason) {
        await store.rearm({ ids })
        return await store.park(ids, reason)
      },
    })),
    'park leaves waiting records alone': parking(({ state }) => state !== 'waiting'),
    'the reason is lost': overriding((store) => ({ park: (ids) => store.park(ids, '') })),
  }),
  ...brokenOutbox('a record that is parked before its first claim is not claimed, and the records around it are claimed once', {
    'park ignores records that were never claimed': () => {
      const latest = new LatestClaims()
      return {
        store: (store) => ({
          claim: (options) => latest.claim(store, options),
          park: (ids, reason) =>
            store.park(
              ids.filter((id) => latest.get(id) !== undefined),
              reason,
            ),
        }),
      }
    },
    'a record that was parked has one attempt too many': () => {
      const rearmed = new Set<string>()
      return {
        store: (store) => ({
          rearm(which, edit, options) {
            if ('ids' in which) for (const id of which.ids) rearmed.add(id)
            return store.rearm(which, edit, options)
          },
          claim: async (options) =>
            (await store.claim(options)).map((one) => (rearmed.has(one.id) ? { ...one, attempts: one.attempts + 1 } : one)),
        }),
      }
    },
  }),
  ...brokenOutbox('rearm publishes retained records again if asked for published ones', {
    'the state is ignored': rearmingPublishedToo,
    'published records stay as they are': rearming((which, edit, options) => [which, edit, { ...options, state: 'parked' }]),
    'the time of the first publish stays': () => {
      const publishedAt = new Map<string, number | undefined>()
      return {
        store: (store) => ({
          async rearm(which, edit, options) {
            for (const record of await allRecords(store)) publishedAt.set(record.id, record.publishedAt)
            return await store.rearm(which, edit, options)
          },
          ...viewsOf(store, (record) => ({ ...record, publishedAt: record.publishedAt ?? publishedAt.get(record.id) })),
        }),
      }
    },
  }),
  ...brokenOutbox('cancel removes waiting records and no others', {
    'cancel removes ready records': cancellingAlso(({ state }) => state === 'ready'),
    'cancel removes leased records': cancellingAlso(({ state }) => state === 'leased'),
    'cancel leaves failed records alone': cancellingOthers((references, records) =>
      references.filter((reference) => !records.some((record) => record.attempts > 0 && isNamed(record, [reference]))),
    ),
    'cancel does nothing': () => ({ transaction: () => ({ cancel: async () => 2 }) }),
    'the destination is ignored': cancellingOthers((references) => references.map((one) => ({ ...one, destination: 'orders' }))),
    'the source is ignored': cancellingOthers((references) => references.map((one) => ({ ...one, source: '/orders' }))),
    'the count is wrong': () => ({
      transaction: (transaction) => ({ cancel: async (references) => ((await transaction.cancel?.(references)) ?? 0) + 1 }),
    }),
  }),
  ...brokenOutbox('cancel takes effect only if its transaction commits', {
    'cancel removes records at once': ({ world }) => ({
      transaction: () => ({ cancel: (references) => cancelAtOnce(world, references) }),
    }),
  }),
  ...brokenOutbox('cancel sees records that its own transaction has appended', {
    'only committed records are cancelled': ({ world }) => ({
      transaction: () => ({ cancel: (references) => cancelAtOnce(world, references) }),
    }),
  }),
  ...brokenOutbox('a delayed record that is due can no longer be cancelled', {
    'any delayed record is cancelled': cancellingAlso(({ state, availableAt, createdAt }) => state === 'ready' && availableAt > createdAt),
  }),
  ...brokenOutbox('discard deletes parked records and no others', {
    'discard removes any record': overriding((store) => ({ discard: (which) => removeRecords(store, which as readonly string[]) })),
  }),
  ...brokenOutbox('cancelWaiting deletes delayed records and those that back off, and no others', {
    'any record is deleted': overriding((store) => ({ cancelWaiting: (which) => removeRecords(store, which as readonly string[]) })),
    'parked records are deleted, too': overriding((store) => ({
      cancelWaiting: async (which, reason, operator) =>
        (await store.discard(which, reason)) + ((await store.cancelWaiting?.(which, reason, operator)) ?? 0),
    })),
    'records that have failed are left': overriding((store) => ({
      async cancelWaiting(which, reason, operator) {
        const fresh = (await allRecords(store)).filter(({ id, attempts }) => attempts === 0 && Array.isArray(which) && which.includes(id))
        return (
          (await store.cancelWaiting?.(
            fresh.map(({ id }) => id),
            reason,
            operator,
          )) ?? 0
        )
      },
    })),
  }),
  ...brokenOutbox('cancelWaiting comes too late for a record that has become due', {
    'records that were once delayed are deleted': overriding((store) => ({
      async cancelWaiting() {
        const due = (await allRecords(store)).filter(({ state, availableAt, createdAt }) => state === 'ready' && availableAt > createdAt)
        return await removeRecords(
          store,
          due.map(({ id }) => id),
        )
      },
    })),
  }),
  ...brokenOutbox('cancelWaiting by filter selects the waiting records that match, and no others', {
    'the filter is ignored': overriding((store) => ({
      cancelWaiting: async (which, reason) => (await store.cancelWaiting?.(Array.isArray(which) ? which : { filter: {} }, reason)) ?? 0,
    })),
    'the state of the filter is ignored': overriding((store) => ({
      cancelWaiting: async (which, reason) =>
        (await store.cancelWaiting?.(Array.isArray(which) ? which : { filter: { ...filterOf(which), state: undefined } }, reason)) ?? 0,
    })),
  }),
  ...brokenOutbox('a cancelled record is gone where published records are kept, too', {
    'it is listed as published': ({ world }) => {
      const cancelled: OutboxRecord[] = []
      return {
        store: (store) => ({
          async cancelWaiting(which, reason) {
            cancelled.push(...(await allRecords(world.store)).filter(({ id }) => Array.isArray(which) && which.includes(id)))
            return (await store.cancelWaiting?.(which, reason)) ?? 0
          },
          async list(filter, page) {
            const found = await store.list(filter, page)
            return { ...found, records: [...found.records, ...cancelled.map((one) => ({ ...one, state: 'published' as const }))] }
          },
        }),
      }
    },
  }),
  ...brokenOutbox('a retained published record is listed, and is not pending in any way', {
    'rearm takes published records': rearmingPublishedToo,
    'a published record is claimed again': overriding((store) => ({
      async claim(options) {
        await store.rearm({ filter: {} }, {}, { state: 'published' })
        return await store.claim(options)
      },
    })),
  }),
  ...brokenOutbox('deletePublished uses the time of the publish, not of the append', {
    'records are deleted by createdAt': deleting(({ state, createdAt }, before) => state === 'published' && createdAt <= before),
  }),
  ...brokenOutbox('deletePublished deletes no more records than its limit', {
    'the limit is ignored': overriding((store) => ({
      deletePublished: ({ olderThan }) => store.deletePublished({ olderThan, limit: Number.MAX_SAFE_INTEGER }),
    })),
  }),
  ...brokenOutbox('deletePublished never deletes unpublished records, however old', {
    'every old record is deleted': deleting(({ createdAt }, before) => createdAt <= before),
    'parked records are deleted too': deleting(({ state }) => state === 'published' || state === 'parked'),
  }),
]

function filterOf(which: Parameters<NonNullable<OutboxAdmin['cancelWaiting']>>[0]): OutboxFilter {
  return Array.isArray(which) ? {} : (which as { readonly filter: OutboxFilter }).filter
}

function isNamed({ destination, message }: OutboxRecord, references: readonly OutboxReference[]): boolean {
  return references.some((one) => one.destination === destination && one.source === message.source && one.id === message.id)
}

async function idsMatching(store: Outbox, filter: Parameters<OutboxAdmin['list']>[0]): Promise<string[]> {
  return (await store.list(filter, { limit: 10_000 })).records.map(({ id }) => id)
}

/** Cancels in a separate transaction, which sees committed records only. */
async function cancelAtOnce(
  world: Awaited<ReturnType<OpenOutboxWorld>>,
  references: readonly OutboxReference[],
): Promise<number | undefined> {
  let count: number | undefined
  await world.transaction(async (other) => {
    count = await other.cancel?.(references)
  })
  return count
}

import type {
  Claim,
  ClaimedRecord,
  ClaimOptions,
  NewEvents,
  NewOutboxRecord,
  OutboxAdmin,
  OutboxRecord,
  OutboxStore,
  Outcome,
} from '@ackord/outbox'
import { VirtualRuntime } from '../../../src/helpers/virtual-runtime.ts'
import {
  type OpenOutboxWorld,
  type OutboxTransaction,
  type OutboxWorld,
  openMemoryOutboxWorld,
} from '../../../src/suites/outbox/outbox-world.ts'
import { type Mutant, mutantsOf } from '../../support/mutant.ts'

export type Outbox = OutboxStore & OutboxAdmin

/** The objects that a decoration may use. None of them is decorated. */
interface Decorated {
  readonly world: OutboxWorld
  /** The time by the clock of the store. */
  now(): number
}

/** The methods that a mutant replaces. `store` is called for each store object of a world, `transaction` for each transaction. */
interface Decoration {
  readonly store?: (store: Outbox) => Partial<Outbox>
  readonly transaction?: (transaction: OutboxTransaction) => Partial<OutboxTransaction>
  /** Opens a second store object. Default: one on the same records. */
  readonly another?: () => Promise<Outbox>
}

/** Called once for each world, so that a mutant can share state between its store objects. */
export type Decorate = (decorated: Decorated) => Decoration

/** Opens worlds of a real store, decorated. */
export function decoratedOutbox(decorate: Decorate, open: OpenOutboxWorld = openMemoryOutboxWorld): OpenOutboxWorld {
  return async (options) => {
    const world = await open(options)
    const startedAt = new VirtualRuntime().now()
    let elapsed = 0
    const { store = () => ({}), transaction = () => ({}), another = world.another } = decorate({ world, now: () => startedAt + elapsed })
    const decorateStore = (inner: Outbox): Outbox => ({ ...methodsOf(inner), ...store(inner) })
    const decorateTransaction = <T extends OutboxTransaction>(inner: T): T => ({ ...inner, ...transaction(inner) })
    return {
      store: decorateStore(world.store),
      another: async () => decorateStore(await another()),
      transaction: (work) => world.transaction((inner) => work(decorateTransaction(inner))),
      openTransaction: async () => {
        const opened = await world.openTransaction?.()
        if (opened === undefined) throw new Error('The memory store has transactions that run concurrently.')
        return decorateTransaction(opened)
      },
      async advance(duration) {
        elapsed += duration
        await world.advance(duration)
      },
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  }
}

/** The outbox mutants that one scenario must catch. */
export function brokenOutbox(caughtBy: string, defects: Readonly<Record<string, Decorate>>): Mutant<OpenOutboxWorld>[] {
  return mutantsOf(caughtBy, defects, (decorate) => decoratedOutbox(decorate))
}

/** Replaces methods of every store object. */
export function overriding(methods: (store: Outbox) => Partial<Outbox>): Decorate {
  return () => ({ store: methods })
}

/** Changes each record that is appended. */
export function storing(change: (record: NewOutboxRecord) => NewOutboxRecord): Decorate {
  return storingAll((records) => records.map(change))
}

export function storingAll(change: (records: readonly NewOutboxRecord[]) => readonly NewOutboxRecord[]): Decorate {
  return () => ({ transaction: (transaction) => ({ append: (events) => transaction.append(change(recordsOf(events))) }) })
}

/** What a scenario appends, as records; most scenarios append records. */
export function recordsOf(events: NewEvents): readonly NewOutboxRecord[] {
  return [events].flat() as readonly NewOutboxRecord[]
}

/** Changes the options of each claim. */
export function claimingWith(change: (options: ClaimOptions) => ClaimOptions): Decorate {
  return overriding((store) => ({ claim: (options) => store.claim(change(options)) }))
}

/** Claims everything that the options of a claim allow, whatever its limits, keeps what `choose` returns, and releases the rest. */
export function choosing(choose: Choose, change: (options: ClaimOptions) => ClaimOptions = (options) => options): Decorate {
  return overriding((store) => ({ claim: (options) => claimChosen(store, options, choose, change) }))
}

export type Choose = (
  found: readonly ClaimedRecord[],
  options: ClaimOptions,
  store: Outbox,
) => readonly ClaimedRecord[] | Promise<readonly ClaimedRecord[]>

export async function claimChosen(
  store: Outbox,
  options: ClaimOptions,
  choose: Choose,
  change: (options: ClaimOptions) => ClaimOptions = (same) => same,
): Promise<readonly ClaimedRecord[]> {
  const found = await store.claim({ ...change(options), limit: Number.MAX_SAFE_INTEGER, maxBytes: undefined })
  const chosen = await choose(found, options, store)
  const ids = new Set(chosen.map(({ id }) => id))
  await store.release(found.filter(({ id }) => !ids.has(id)))
  return chosen
}

/** Claims report another age. `now` is the time by the clock of the store. */
function reportingAge(ageOf: (claimed: ClaimedRecord, now: number) => number): Decorate {
  return ({ now }) => ({
    store: (store) => ({
      claim: async (options) => (await store.claim(options)).map((claimed) => ({ ...claimed, age: ageOf(claimed, now()) })),
    }),
  })
}

/** Ages that are not those of the records. */
export const wrongAges: Readonly<Record<string, Decorate>> = {
  'the age is always 0': reportingAge(() => 0),
  'the age is in seconds': reportingAge(({ age }) => age / 1000),
  'the age is that of the oldest record of the claim': overriding((store) => ({
    async claim(options) {
      const claimed = await store.claim(options)
      const oldest = Math.max(...claimed.map(({ age }) => age))
      return claimed.map((one) => ({ ...one, age: oldest }))
    },
  })),
  'the age counts from the first claim': (decorated) => {
    const claimedAt = new Map<string, number>()
    return reportingAge(({ id }, now) => {
      if (!claimedAt.has(id)) claimedAt.set(id, now)
      return now - (claimedAt.get(id) ?? now)
    })(decorated)
  },
  'the age is 0 after a failure': reportingAge(({ attempts, age }) => (attempts > 1 ? 0 : age)),
  'the age is by the clock of this process': reportingAge(({ createdAt }) => Date.now() - createdAt),
}

/** Changes the outcomes before they are settled. */
export function settling(change: (outcome: Outcome) => Outcome): Decorate {
  return overriding((store) => ({ settle: (outcomes) => store.settle(outcomes.map(change)) }))
}

type Rearm = Parameters<OutboxAdmin['rearm']>

/** Changes the arguments of `rearm()`. */
export function rearming(change: (...call: Rearm) => Rearm): Decorate {
  return overriding((store) => ({ rearm: (...call) => store.rearm(...change(...call)) }))
}

/** Changes the records that operators see. */
export function showing(change: (record: OutboxRecord) => OutboxRecord): Decorate {
  return overriding((store) => viewsOf(store, change))
}

export function viewsOf(store: Outbox, change: (record: OutboxRecord) => OutboxRecord): Pick<Outbox, 'list' | 'get'> {
  return {
    async list(filter, page) {
      const { records, next } = await store.list(filter, page)
      return { records: records.map(change), next }
    },
    async get(id) {
      const record = await store.get(id)
      return record === undefined ? undefined : change(record)
    },
  }
}

/** Remembers the latest claim of each record, so that a mutant can act as its current owner. */
export class LatestClaims {
  readonly #claims = new Map<string, { readonly claimed: ClaimedRecord; readonly store: Outbox }>()

  async claim(store: Outbox, options: ClaimOptions): Promise<readonly ClaimedRecord[]> {
    const claimed = await store.claim(options)
    for (const one of claimed) this.#claims.set(one.id, { claimed: one, store })
    return claimed
  }

  get(id: string): ClaimedRecord | undefined {
    return this.#claims.get(id)?.claimed
  }

  /** The store object that made the latest claim. */
  storeOf(id: string): Outbox | undefined {
    return this.#claims.get(id)?.store
  }

  /** The same calls with the token of the current owner. */
  impersonating<C extends Claim>(claims: readonly C[]): C[] {
    return claims.map((claim) => ({ ...claim, token: this.get(claim.id)?.token ?? claim.token }))
  }
}

/** Claims this one record. Fails if it cannot be claimed. */
export async function claimRecord(store: Outbox, id: string, options: ClaimOptions = { limit: 1, lease: 60_000 }): Promise<ClaimedRecord> {
  const [claimed] = await claimChosen(store, options, (found) => found.filter((one) => one.id === id))
  if (claimed === undefined) throw new Error(`Record ${id} cannot be claimed.`)
  return claimed
}

export async function allRecords(store: Outbox): Promise<readonly OutboxRecord[]> {
  return (await store.list({}, { limit: 100_000 })).records
}

/** Removes these records, whatever their state, unless they are leased. */
export async function removeRecords(store: Outbox, ids: readonly string[]): Promise<number> {
  await store.rearm({ ids }, {}, { state: 'published' })
  await store.park(ids, 'removed')
  return await store.discard(ids, 'removed')
}

export async function* wakeUpsOf(store: Outbox, signal: AbortSignal): AsyncGenerator<void, void, void> {
  yield* store.wakeUps?.({ signal }) ?? []
}

/** Bound to the store, whose private state a copy would not have. */
function methodsOf(memory: Outbox): Outbox {
  const store = memory as Outbox & Required<OutboxAdmin>
  return {
    capabilities: store.capabilities,
    notes: store.notes,
    claim: (options) => store.claim(options),
    renew: (claims, lease) => store.renew(claims, lease),
    release: (claims) => store.release(claims),
    settle: (outcomes) => store.settle(outcomes),
    leave: async () => await store.leave?.(),
    ownedPartitions: () => store.ownedPartitions?.(),
    wakeUps: ({ signal }) => wakeUpsOf(store, signal),
    list: (filter, page) => store.list(filter, page),
    get: (id) => store.get(id),
    rearm: (which, edit, options) => store.rearm(which, edit, options),
    park: (ids, reason, operator) => store.park(ids, reason, operator),
    discard: (which, reason, operator) => store.discard(which, reason, operator),
    cancelWaiting: (which, reason, operator) => store.cancelWaiting(which, reason, operator),
    stats: (options) => store.stats(options),
    deletePublished: (options) => store.deletePublished(options),
    find: (which) => store.find(which),
    groups: (by, filter) => store.groups(by, filter),
    history: (id) => store.history(id),
    pause: (destination, options) => store.pause(destination, options),
    resume: (destination, options) => store.resume(destination, options),
    pauses: () => store.pauses(),
    relays: () => store.relays(),
    rates: (options) => store.rates(options),
    audit: (options) => store.audit(options),
  }
}

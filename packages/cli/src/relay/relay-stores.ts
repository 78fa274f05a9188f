import type { Logger } from '@ackord/core'
import { abortable } from '@ackord/core/internal'
import { unlessAborted } from '../lifecycle.ts'
import { CommandError, exitCode } from '../output/errors.ts'
import { talkingTo } from '../output/explain-failure.ts'
import type { Session } from '../session.ts'
import { namedUrls } from '../settings/named-urls.ts'
import { isRedisUrl } from '../settings/urls.ts'
import { checkMode, type OpenStoreOptions, openStore } from '../stores/open-store.ts'
import type { OutboxChoices, Store, StoreLocation } from '../stores/store.ts'

export interface RelayStoresOptions {
  /** URLs, each alone or as `name=url`. */
  readonly from: readonly string[] | undefined
  readonly location: StoreLocation
  readonly order: OutboxChoices['order']
  readonly mode: NonNullable<OutboxChoices['mode']>
  readonly logger: Logger
}

/** The stores of a relay, open and verified. Disposing closes them. */
export interface RelayStores extends AsyncDisposable {
  readonly stores: ReadonlyMap<string, Store>
  /** Whether there are several stores, or one with a name: then metrics and log lines have the name of the store. */
  readonly named: boolean
}

/**
 * Opens the stores, and verifies that a relay can use them. Of several stores, those that cannot be reached are connected to later, so that the relay serves the
 * others; one of them must answer.
 */
export async function openRelayStores({ secrets, signal }: Session, options: RelayStoresOptions): Promise<RelayStores> {
  const { from = [], location, order, mode, logger } = options
  const urls = namedUrls('--from', from)
  checkMode([...urls.values()], { mode, order })
  const named = urls.size > 1 || [...urls.values()].some((url) => url !== from[0])
  const stores = new Map<string, Store>()
  const closeAll = async () => {
    for (const store of [...stores.values()].reverse()) await store[Symbol.asyncDispose]()
  }

  async function openVerified(url: string | undefined, own: OpenStoreOptions): Promise<Store> {
    const store = await unlessAborted(openStore(url, own), signal)
    try {
      const verify = () => (store.kind === 'redis' ? store.verify(order ?? 'none') : store.validateSchema())
      await abortable(talkingTo(store.address, verify), signal)
      return store
    } catch (error) {
      await store[Symbol.asyncDispose]()
      throw error
    }
  }

  try {
    // Reports that it is missing.
    if (urls.size === 0) stores.set('', await openVerified(undefined, { option: '--from', location, logger, secrets }))
    const unreachable = new Map<string, CommandError>()
    for (const [name, url] of urls) {
      const own = { option: '--from', location: named ? locationFor(url, location, [...urls.values()]) : location, logger, secrets }
      try {
        stores.set(name, await openVerified(url, own))
      } catch (error) {
        if (urls.size === 1 || !isUnreachable(error, url)) throw error
        unreachable.set(name, error)
        stores.set(name, await openStore(url, { ...own, connect: false }))
      }
    }
    const [first] = unreachable.values()
    if (first !== undefined && unreachable.size === urls.size) throw first
    for (const [store, error] of unreachable) {
      logger.error(
        { store, err: error.message },
        'A store cannot be reached. The relay starts with the others, and serves this one once it answers.',
      )
    }
    if (mode === 'table') warnOfLogs(stores, logger)
    return { stores, named, [Symbol.asyncDispose]: closeAll }
  } catch (error) {
    await closeAll()
    throw error
  }
}

/** A store that cannot be reached yet is not asked. */
function warnOfLogs(stores: ReadonlyMap<string, Store>, logger: Logger): void {
  for (const store of stores.values()) {
    if (store.kind === 'redis' || !store.usesLog()) continue
    const text =
      'The log of this outbox has been used, and a relay in table mode does not read it. Add --mode log if the writing services use it.'
    logger.warn({ store: store.address }, text)
  }
}

/** An SQLite file that does not exist is no outage. */
function isUnreachable(error: unknown, url: string): error is CommandError {
  return error instanceof CommandError && error.exitCode === exitCode.unreachable && !/^sqlite:/i.test(url)
}

/** Where there are SQL databases and Redis servers, each gets its own options. Otherwise the store rejects options of the other kind. */
function locationFor(url: string, location: StoreLocation, urls: readonly string[]): StoreLocation {
  const { schema, prefix, ...redis } = location
  if (!urls.some(isRedisUrl) || urls.every(isRedisUrl)) return location
  return isRedisUrl(url) ? redis : { schema, prefix }
}

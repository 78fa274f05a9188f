import { openStore } from './open-store.ts'
import type { Session } from './session.ts'
import type { Store, StorePlace } from './stores/store.ts'

/** What `storeCommand()` gives. */
export interface StoreOptions extends StorePlace {
  readonly store?: string | undefined
}

export function placeOf({ schema, prefix, stream, tag, outbox, shards }: StorePlace): StorePlace {
  return { schema, prefix, stream, tag, outbox, shards }
}

export function openStoreOf(
  options: StoreOptions,
  { output, secrets }: Session,
  more: { readonly create?: boolean; readonly connect?: boolean } = {},
): Promise<Store> {
  return openStore(options.store, { option: '--store', place: placeOf(options), logger: output.logger(), secrets, ...more })
}

import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLogger } from '@ackord/core'
import { usageError } from './command-error.ts'
import { openStore } from './open-store.ts'
import { isRedisUrl } from './redis-url.ts'
import type { Secrets } from './secrets.ts'
import { sqlitePath } from './stores/sqlite-path.ts'
import type { Store, StorePlace } from './stores/store.ts'

export interface RunStoreOptions {
  /** Of this run: lower-case letters, digits and hyphens. */
  readonly name: string
  readonly secrets: Secrets
  /** Redis only. Default: `stream`. */
  readonly outbox?: StorePlace['outbox']
}

/** Before anything is begun. */
export function checkOutbox(url: string | undefined, outbox: StorePlace['outbox']): void {
  if (outbox !== undefined && !isRedisUrl(url ?? '')) throw usageError('--outbox is for Redis.', 'Add --store redis://…')
}

/** A store for one run of the command, with names of its own, so that it touches nothing else. Without a URL it is PostgreSQL in this process. */
export async function openRunStore(url: string | undefined, { name, secrets, outbox }: RunStoreOptions): Promise<Store> {
  if (url === undefined) {
    const { openPglite } = await import('./stores/pglite.ts')
    return await openPglite({})
  }
  const open = (place: StorePlace, from = url) => openStore(from, { option: '--store', place, logger: silentLogger, secrets, create: true })
  if (isRedisUrl(url)) return await open({ tag: [name], outbox })
  const place = { prefix: `${name.replaceAll('-', '_')}_` }
  if (!/^sqlite:/i.test(url)) return await open(place)
  if (url.length > 'sqlite:'.length) {
    const file = sqlitePath(url)
    return existsSync(file) ? await open(place) : withCleanup(await open(place), [file, `${file}-wal`, `${file}-shm`])
  }
  const directory = await mkdtemp(join(tmpdir(), `${name}-`))
  return withCleanup(await open(place, `sqlite:${join(directory, 'demo.db')}`), [directory])
}

/** Removes what was not there before, once the store is closed. */
function withCleanup(store: Store, paths: readonly string[]): Store {
  const close = store[Symbol.asyncDispose]
  return {
    ...store,
    async [Symbol.asyncDispose]() {
      await close()
      for (const path of paths) await rm(path, { recursive: true, force: true })
    },
  }
}

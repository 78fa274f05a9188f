import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Logger, silentLogger } from '@ackord/core'
import { closeWithin } from '../lifecycle.ts'
import { usageError } from '../output/errors.ts'
import { talkingTo } from '../output/explain-failure.ts'
import type { Secrets } from '../output/secrets.ts'
import type { Session } from '../session.ts'
import { isRedisUrl, parseServiceUrl, type ServiceUrl } from '../settings/urls.ts'
import { sqlitePath } from './sqlite.ts'
import type { OutboxChoices, Store, StoreLocation } from './store.ts'

export interface OpenStoreOptions {
  /** The option to name in errors if the URL is invalid. */
  readonly option: string
  readonly location: StoreLocation
  readonly logger: Logger
  readonly secrets: Secrets
  /** Whether an SQLite file is created if it does not exist. Default: false. */
  readonly create?: boolean | undefined
  /** Whether to connect. Otherwise a store connects when it is used, SQLite to a database in memory. Default: true. */
  readonly connect?: boolean | undefined
}

const examples = [
  'postgres://host:5432/database',
  'mysql://host:3306/database',
  'sqlite:file.db',
  'redis://host:6379',
  'redis+cluster://host:6379',
]

/** Opens the store at a URL, and checks that it answers. The caller closes it. */
export async function openStore(text: string | undefined, options: OpenStoreOptions): Promise<Store> {
  const { option, secrets, connect = true } = options
  if (text === undefined) throw usageError(`${option} is missing.`, `Pass it, set ACKORD_STORE, or set 'store' in ackord.config.ts.`)
  secrets.addUrl(text)
  const url = parseServiceUrl(option, text, examples)
  return await talkingTo(url.address, async () => {
    const opened = await open(url, options)
    const store = { ...opened, [Symbol.asyncDispose]: () => closeWithin(() => opened[Symbol.asyncDispose]()) }
    if (!connect) return store
    try {
      await store.connect()
      return store
    } catch (error) {
      await store[Symbol.asyncDispose]().catch(() => {})
      throw error
    }
  })
}

/** The clients are loaded on demand: each adds to the start-up time. */
async function open(url: ServiceUrl, { option, location, logger, create = false, connect = true }: OpenStoreOptions): Promise<Store> {
  switch (url.scheme) {
    case 'postgres':
    case 'postgresql': {
      const { openPostgres } = await import('./postgres.ts')
      return openPostgres(url, location, logger)
    }
    case 'mysql':
    case 'mariadb': {
      const { openMysql } = await import('./mysql.ts')
      return openMysql(url, location)
    }
    case 'sqlite': {
      const { openSqlite } = await import('./sqlite.ts')
      return openSqlite(url, location, { create, connect, logger })
    }
    case 'redis':
    case 'rediss':
    case 'redis+cluster':
    case 'rediss+cluster': {
      const { openRedis } = await import('./redis.ts')
      return await openRedis(url, location, { connect, logger })
    }
    default:
      throw usageError(
        `${option} has the scheme '${url.scheme}:', which is not a supported store.`,
        `Expected one of: ${examples.join(', ')}`,
      )
  }
}

export interface RunStoreOptions {
  /** A name of this run: lower-case letters, digits and hyphens. */
  readonly name: string
  readonly secrets: Secrets
  /** Redis only. Default: `stream`. */
  readonly outbox?: StoreLocation['outbox']
}

/** Validated before anything is created. */
export function checkOutbox(url: string | undefined, outbox: StoreLocation['outbox']): void {
  if (outbox !== undefined && !isRedisUrl(url ?? '')) throw usageError('--outbox is for Redis.', 'Add --store redis://…')
}

/** Validated before anything is opened. */
export function checkMode(urls: readonly string[], { mode, order }: Pick<OutboxChoices, 'mode' | 'order'>): void {
  if (mode !== 'log') return
  if (urls.some((url) => !/^postgres(ql)?:/i.test(url))) throw usageError('--mode log requires PostgreSQL.', 'Omit it for other stores.')
  if (order === 'none')
    throw usageError('--order none is not possible with --mode log, which always keeps the order of each key.', 'Omit --order.')
}

/** A store for one run of the command, with its own table or key names, so that it affects nothing else. Without a URL it is PostgreSQL in this process. */
export async function openRunStore(url: string | undefined, { name, secrets, outbox }: RunStoreOptions): Promise<Store> {
  if (url === undefined) {
    const { openPglite } = await import('./pglite.ts')
    return await openPglite({})
  }
  const open = (location: StoreLocation, from = url) =>
    openStore(from, { option: '--store', location, logger: silentLogger, secrets, create: true })
  if (isRedisUrl(url)) return await open({ tag: [name], outbox })
  const location = { prefix: `${name.replaceAll('-', '_')}_` }
  if (!/^sqlite:/i.test(url)) return await open(location)
  if (url.length > 'sqlite:'.length) {
    const file = sqlitePath(url)
    return existsSync(file) ? await open(location) : withCleanup(await open(location), [file, `${file}-wal`, `${file}-shm`])
  }
  const directory = await mkdtemp(join(tmpdir(), `${name}-`))
  return withCleanup(await open(location, `sqlite:${join(directory, 'demo.db')}`), [directory])
}

/** Removes everything that the run created, once the store is closed. */
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

/** The options that `storeCommand()` adds. */
export interface StoreOptions extends StoreLocation {
  readonly store?: string | undefined
}

export function locationOf({ schema, prefix, stream, tag, outbox, shards }: StoreLocation): StoreLocation {
  return { schema, prefix, stream, tag, outbox, shards }
}

export function openStoreOf(
  options: StoreOptions,
  { output, secrets }: Session,
  more: Partial<Pick<OpenStoreOptions, 'create' | 'connect' | 'logger'>> = {},
): Promise<Store> {
  return openStore(options.store, { option: '--store', location: locationOf(options), logger: output.logger(), secrets, ...more })
}

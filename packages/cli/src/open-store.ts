import type { Logger } from '@ackord/core'
import { closeWithin } from './close-within.ts'
import { usageError } from './command-error.ts'
import { talkingTo } from './explain-failure.ts'
import type { Secrets } from './secrets.ts'
import { parseServiceUrl, type ServiceUrl } from './service-url.ts'
import type { Store, StorePlace } from './stores/store.ts'

export interface OpenStoreOptions {
  /** What the user has to look at if the URL is wrong. */
  readonly option: string
  readonly place: StorePlace
  readonly logger: Logger
  readonly secrets: Secrets
  /** Whether a file of SQLite is made where there is none. Default: false. */
  readonly create?: boolean | undefined
  /** Whether it is connected to. Default: true. */
  readonly connect?: boolean | undefined
}

const examples = [
  'postgres://host:5432/database',
  'mysql://host:3306/database',
  'sqlite:file.db',
  'redis://host:6379',
  'redis+cluster://host:6379',
]

/** Opens the store that a URL names, and sees that it answers. The caller closes it. */
export async function openStore(text: string | undefined, options: OpenStoreOptions): Promise<Store> {
  const { option, secrets, connect = true } = options
  if (text === undefined) throw usageError(`${option} is missing.`, `Give it, set ACKORD_STORE, or put 'store' into ackord.config.ts.`)
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

/** The clients are loaded when they are needed: each costs time at the start. */
async function open(url: ServiceUrl, { option, place, logger, create = false, connect = true }: OpenStoreOptions): Promise<Store> {
  switch (url.scheme) {
    case 'postgres':
    case 'postgresql': {
      const { openPostgres } = await import('./stores/postgres.ts')
      return openPostgres(url, place, logger)
    }
    case 'mysql':
    case 'mariadb': {
      const { openMysql } = await import('./stores/mysql.ts')
      return openMysql(url, place)
    }
    case 'sqlite': {
      const { openSqlite } = await import('./stores/sqlite.ts')
      return openSqlite(url, place, { create, connect, logger })
    }
    case 'redis':
    case 'rediss':
    case 'redis+cluster':
    case 'rediss+cluster': {
      const { openRedis } = await import('./stores/redis.ts')
      return await openRedis(url, place, logger)
    }
    default:
      throw usageError(`${option} has the scheme '${url.scheme}:', which is no store.`, `Expected one of: ${examples.join(', ')}`)
  }
}

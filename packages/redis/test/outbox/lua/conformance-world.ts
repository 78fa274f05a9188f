import { silentLogger } from '@ackord/core'
import { deferred } from '@ackord/testkit'
import type { OpenOutboxWorld, OutboxTransaction } from '@ackord/testkit/suites'
import { ownName } from '../../../../../scripts/test-run.mjs'
import { LuaShard, tagOfShard } from '../../../src/outbox/lua/layout.ts'
import { type LuaOutboxOptions, luaOutbox } from '../../../src/outbox/lua/lua-outbox.ts'
import { internalsOf, Redis } from '../../../src/transaction/redis.ts'
import type { RedisTransaction } from '../../../src/transaction/transaction.ts'
import { noteKeys } from '../../support/note-keys.ts'
import type { RedisKind } from '../../support/redis-clients.ts'
import { clockKeys, movedServer } from './moved-server.ts'

/** Opens the worlds of the suites on one kind of client, with real transactions. Worlds share the clients, and each has its own tag. */
export function luaOutboxWorld(kind: RedisKind, options: LuaOutboxOptions = {}): OpenOutboxWorld & AsyncDisposable {
  let opened: ReturnType<RedisKind['open']> | undefined
  const open: OpenOutboxWorld = async ({ retain, codecs }) => {
    opened ??= kind.open()
    const { redis: real, command } = await opened
    const tag = `test-${ownName()}`
    const shards = shardsOf(tag, options)
    const { port, move } = movedServer(
      internalsOf(real).port,
      shards.map((shard) => shard.tag),
    )
    const redis = new Redis({}, port, { logger: silentLogger })
    const settings = { tag, retain, codecs, ...options }
    const store = luaOutbox(redis, settings)

    // Records appended inside a savepoint belong to the inner transaction.
    async function running(transaction: RedisTransaction, work: (transaction: OutboxTransaction) => Promise<void>): Promise<void> {
      let current = transaction
      await work({
        append: (records) => store.append(current, records),
        cancel: (references) => store.cancel(current, references),
        async savepoint(inner) {
          const outer = current
          try {
            await redis.write(async (nested) => {
              current = nested
              await inner()
            })
          } finally {
            current = outer
          }
        },
      })
    }

    return {
      store,
      another: async () => luaOutbox(redis, settings),
      async transaction(work) {
        await redis.write((transaction) => running(transaction, work))
      },
      async openTransaction() {
        const begun = deferred<RedisTransaction>()
        const end = deferred<void>()
        const running = redis.write(async (transaction) => {
          begun.resolve(transaction)
          await end.promise
        })
        running.catch(() => {})
        const transaction = await begun.promise
        return {
          append: (records) => store.append(transaction, records),
          cancel: (references) => store.cancel(transaction, references),
          async commit() {
            end.resolve()
            await running
          },
          async rollback() {
            end.reject(new Error('rolled back'))
            await running.catch(() => {})
          },
        }
      },
      advance: move,
      async [Symbol.asyncDispose]() {
        await removeShards(command, shards)
      },
    }
  }
  return Object.assign(open, {
    async [Symbol.asyncDispose]() {
      // A client that could not be opened has already failed a test, so the error is ignored here.
      await (await opened?.catch(() => undefined))?.[Symbol.asyncDispose]()
    },
  })
}

export function shardsOf(tag: string, { shards = 1, name = 'lua-outbox' }: LuaOutboxOptions): readonly LuaShard[] {
  return Array.from({ length: shards }, (_, number) => new LuaShard(number, tagOfShard(tag, number), name))
}

/** Deletes all keys of an outbox. */
export async function removeShards(
  command: (...words: string[]) => Promise<unknown>,
  shards: readonly LuaShard[],
  prefix = '',
): Promise<void> {
  for (const shard of shards) {
    const keys = [...shard.keys, ...noteKeys((...parts) => shard.key(...parts)), ...clockKeys([shard.tag])]
    await command('DEL', ...keys.map((key) => prefix + key))
  }
}

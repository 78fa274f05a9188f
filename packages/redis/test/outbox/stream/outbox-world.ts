import { silentLogger } from '@ackord/core'
import type { OpenOutboxWorld } from '@ackord/testkit/suites'
import { ownName } from '../../../../../scripts/test-run.mjs'
import { redisKey } from '../../../src/client/keys.ts'
import { type StreamOutboxOptions, streamOutbox } from '../../../src/outbox/stream/stream-outbox.ts'
import { internalsOf, Redis } from '../../../src/transaction/redis.ts'
import { noteKeys } from '../../support/note-keys.ts'
import type { RedisKind } from '../../support/redis-clients.ts'
import { movedClock } from './moved-clock.ts'
import { TestTransaction } from './test-transaction.ts'

/** Opens the worlds of the suites on one kind of client. Worlds share the clients, and each has its own tag. */
export function streamOutboxWorld(kind: RedisKind, options: StreamOutboxOptions = {}): OpenOutboxWorld & AsyncDisposable {
  let opened: ReturnType<RedisKind['open']> | undefined
  const open: OpenOutboxWorld = async ({ codecs }) => {
    opened ??= kind.open()
    const { redis: real, command } = await opened
    const { port: realPort } = internalsOf(real)
    const tag = `test-${ownName()}`
    const { port, move } = movedClock(realPort, redisKey(tag, 'clock'))
    const redis = new Redis({}, port, { logger: silentLogger })
    const settings = { tags: [tag], claimInterval: 0, codecs, ...options }
    const store = streamOutbox(redis, settings)
    const own = [
      ...['destinations', 'empty', 'wake'].map((name) => redisKey(tag, 'outbox', name)),
      ...noteKeys((...parts) => redisKey(tag, 'outbox', ...parts)),
    ]
    const keysOf = async () => {
      const destinations = [
        ...((await command('SMEMBERS', redisKey(tag, 'outbox', 'destinations'))) as string[]),
        ...((await command('ZRANGE', redisKey(tag, 'outbox', 'empty'), '0', '-1')) as string[]),
      ]
      const kinds = (destination: string) =>
        ['to', 'ready', 'retry', 'parked', 'errors', 'uncounted', 'gate'].map((one) => redisKey(tag, 'outbox', one, destination))
      return destinations.map((destination) => ({ stream: redisKey(tag, 'outbox', 'to', destination), all: kinds(destination) }))
    }
    return {
      store,
      another: async () => streamOutbox(redis, settings),
      async transaction(work) {
        const transaction = new TestTransaction()
        try {
          await work({
            append: (records) => store.append(transaction, records),
            cancel: (references) => store.cancel(transaction, references),
          })
        } catch (error) {
          transaction.end()
          throw error
        }
        await transaction.commit(port)
      },
      async openTransaction() {
        const transaction = new TestTransaction()
        return {
          append: (records) => store.append(transaction, records),
          cancel: (references) => store.cancel(transaction, references),
          commit: () => transaction.commit(port),
          rollback: async () => transaction.end(),
        }
      },
      async advance(duration) {
        await move(
          duration,
          (await keysOf()).map(({ stream }) => stream),
          'relay',
        )
      },
      async [Symbol.asyncDispose]() {
        const keys = [...(await keysOf()).flatMap(({ all }) => all), ...own, redisKey(tag, 'clock')]
        await command('DEL', ...keys)
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

import { hash } from 'node:crypto'
import { currentContext, type Logger, rootContext, StoreRefusesWritesError } from '@ackord/core'
import { checkDuration, checkName, probe, rejectUnknownOptions } from '@ackord/core/internal'
import {
  checkClaimOptions,
  checkIdempotencyKey,
  checkStoredAnswer,
  claimLost,
  type IdempotencyKey,
  type IdempotencyStore,
  writeInsideTransaction,
} from '@ackord/outbox'
import { defaultTag, redisKey } from '../client/keys.ts'
import { releaseScript } from '../client/release-script.ts'
import { asList, callFailureOf } from '../client/reply.ts'
import { PartialCommitError } from '../errors.ts'
import type { CommandQueue } from '../transaction/command-queue.ts'
import type { MarkerClaim } from '../transaction/committer.ts'
import { internalsOf, type Redis } from '../transaction/redis.ts'
import { transactionRunner } from '../transaction/run-transaction.ts'
import type { RedisTransaction } from '../transaction/transaction.ts'
import { claimScript } from './claim-script.ts'
import { decodeAnswer, encodeAnswer } from './stored-answer.ts'

export interface RedisIdempotencyOptions {
  /**
   * The hash tag of an entry's key. The answer commits with the writes of the request, so their keys need the same tag: `redis.key(tag, …)`. One tag is one
   * slot: on a cluster, derive it from the key of the request, such as from a tenant in its scope. Default: `'ackord'`.
   */
  readonly tag?: string | ((key: IdempotencyKey) => string) | undefined
  /** Whether the commands before a failed one are undone, as the option of the same name does in a transaction. Default: false. */
  readonly rollback?: boolean | undefined
  /** Default: the logger of the Redis object. */
  readonly logger?: Logger | undefined
}

/**
 * Remembers the answers to requests in Redis: the answer, the writes and the events of a request commit in one script, which checks the claim first. A claim
 * is one call, and so is a commit.
 *
 *     const store = redisIdempotency(redis, { tag: 'orders' })
 *
 * - An answer takes the memory of its bytes for the whole retention.
 * - It is as durable as the server. A server that evicts keys forgets answers, and a failover may lose the latest ones; a request that is sent again is then
 *   carried out again. `checkDurability()` reports such settings.
 * - If a command fails in the middle of a commit, `write` and every later `claim` reject with `ACKORD_PARTIAL_COMMIT` until the retention ends, so that no
 *   command is carried out twice. With `rollback: true` the commands are undone where that is possible, and the claim is given back.
 * - If a commit is not answered, the store asks for its outcome. A commit that had not arrived is refused from then on, and the claim is given back.
 * - A claim is deleted a day after its lease has ended.
 */
export function redisIdempotency(redis: Redis, options: RedisIdempotencyOptions = {}): IdempotencyStore<RedisTransaction> {
  const { tag = defaultTag, rollback, logger, ...unknown } = options
  rejectUnknownOptions('redisIdempotency()', unknown)
  if (typeof tag !== 'function') checkName('tag', tag)
  const internals = internalsOf(redis)
  const { port, tokens } = internals
  // The work of a request is done at most once: a conflict is an error, not a reason to do it again.
  const runTransaction = transactionRunner(internals, 'redisIdempotency()', { rollback, logger, retries: 0 })

  /** `{tag}:idempotency:hash`. The whole hash, because clients choose the keys. */
  function entryOf(key: IdempotencyKey): string {
    const { scope, key: own } = checkIdempotencyKey(key)
    return redisKey(typeof tag === 'function' ? tag(key) : tag, 'idempotency', hash('sha256', JSON.stringify([scope, own]), 'base64url'))
  }

  return {
    async claim(key, claimOptions) {
      const entry = entryOf(key)
      const { fingerprint: text, lease } = checkClaimOptions(claimOptions)
      const fingerprint = hash('sha256', text, 'base64url')
      const token = `${tokens()}:${fingerprint}`
      const args = [token, fingerprint, String(Math.ceil(lease))]
      const reply = await port.evaluate(claimScript, [entry], args, { binary: true }).catch((error: unknown) => {
        // The claim may have been made all the same; then it would have no owner. If it cannot be released either, it ends with its lease.
        port.evaluate(releaseScript, [entry], [token]).catch(() => {})
        const { kind, text: problem } = callFailureOf(error)
        throw kind === 'refusesWrites' ? new StoreRefusesWritesError('Redis', problem, { cause: error }) : error
      })
      const [state, value] = asList(reply)
      switch (String(state)) {
        case 'claimed':
          await probe('idempotency.claimed')
          return { state: 'claimed', token }
        case 'running':
          return { state: 'running', remaining: Number(value) }
        case 'answered':
          return { state: 'answered', answer: decodeAnswer(value as Buffer) }
        case 'partial':
          throw new PartialCommitError(ownerOf(key), `${String(value)}, at an earlier attempt`)
        default:
          return { state: 'mismatch' }
      }
    },

    async write(key, token, work, { retention: given, context = currentContext() ?? rootContext() }) {
      const entry = entryOf(key)
      const retention = Math.ceil(checkDuration('retention', given, { min: 1 }))
      const owner = ownerOf(key)
      if (internals.find(context) !== undefined) throw writeInsideTransaction('redisIdempotency()')
      // Under one token there may be several calls of write(), and the answer of one must not pass for that of another.
      const ownToken = `${token} ${tokens()}`
      const claim: MarkerClaim = {
        marker: entry,
        token: ownToken,
        rule: 'lease',
        retention,
        stopRenewal: doNothing,
        // The caller decides whether the claim is given back.
        release: () => nothing,
        lostError: () => claimLost(key),
      }
      return await runTransaction(
        {
          message: undefined,
          owner,
          claim,
          async run(inside) {
            // The runner has put it there.
            const queue = internals.find(inside) as CommandQueue
            const answer = checkStoredAnswer(await work(queue, inside))
            await probe('idempotency.worked')
            const done = Buffer.concat([Buffer.from(`done:${ownToken} `), encodeAnswer(answer)])
            // The last command of the transaction: the commit script has marked the entry as done before the first one.
            queue.queueEvent({ name: 'SET', args: [entry, done, 'PX', String(retention)], keys: [0], kind: 'any' })
            return answer
          },
        },
        context,
      )
    },

    async release(key, token) {
      await port.evaluate(releaseScript, [entryOf(key)], [token])
      await probe('idempotency.released')
    },
  }
}

const doNothing = () => {}
const nothing: Promise<void> = Promise.resolve()

function ownerOf({ key }: IdempotencyKey): string {
  return `the request with the idempotency key ${JSON.stringify(key)}`
}

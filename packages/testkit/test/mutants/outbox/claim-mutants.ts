import type { Claim, ClaimedRecord } from '@ackord/outbox'
import type { OpenOutboxWorld } from '../../../src/suites/outbox/outbox-world.ts'
import type { Mutant } from '../../support/mutant.ts'
import {
  brokenOutbox,
  choosing,
  claimChosen,
  claimingWith,
  claimRecord,
  type Decorate,
  LatestClaims,
  overriding,
  settling,
  showing,
  viewsOf,
  wakeUpsOf,
  wrongAges,
} from './decorated-outbox.ts'

/** Longer than any scenario lasts. */
const forever = 1e15
const week = 7 * 86_400_000

const refusingEmptyLists = overriding((store) => ({
  async settle(outcomes) {
    if (outcomes.length === 0) throw new Error('the list is empty')
    return await store.settle(outcomes)
  },
}))

/** Calls of this kind are made with the token of the current owner. */
function ignoringTokens(call: 'renew' | 'release' | 'settle'): Decorate {
  return () => {
    const latest = new LatestClaims()
    return {
      store: (store) => ({
        claim: (options) => latest.claim(store, options),
        ...(call === 'renew' && { renew: (claims, lease) => store.renew(latest.impersonating(claims), lease) }),
        ...(call === 'release' && { release: (claims) => store.release(latest.impersonating(claims)) }),
        ...(call === 'settle' && { settle: (outcomes) => store.settle(latest.impersonating(outcomes)) }),
      }),
    }
  }
}

/** Stores that break their promises to relays: claims, leases, outcomes. */
export const claimMutants: readonly Mutant<OpenOutboxWorld>[] = [
  ...brokenOutbox('a claim returns no more records than its limit', {
    'the limit is off by one': claimingWith((options) => ({ ...options, limit: options.limit + 1 })),
  }),
  ...brokenOutbox('a claim stops before the record that would exceed its bytes, and leaves that record untouched', {
    'maxBytes is ignored': claimingWith((options) => ({ ...options, maxBytes: undefined })),
    'a claim ends with the record that exceeds its bytes': choosing((found, { maxBytes }) =>
      found.slice(0, withinBytes(found, maxBytes, bytesOf).length + 1),
    ),
    'a record that did not fit has lost an attempt': choosing(async (found, { maxBytes }, store) => {
      const taken = withinBytes(found, maxBytes, bytesOf)
      await store.settle(found.slice(taken.length).map(({ id, token }) => ({ id, token, result: 'failed', error: '', retryAfter: 0 })))
      return taken
    }),
  }),
  ...brokenOutbox('a record that is larger than maxBytes is claimed alone, and does not block the records behind it', {
    'a record that is too large is never claimed': choosing((found, { maxBytes = Infinity }) =>
      withinBytes(found, maxBytes, bytesOf).filter((one) => bytesOf(one) <= maxBytes),
    ),
    'a record that is too large is not counted': choosing((found, { maxBytes = Infinity }) =>
      withinBytes(found, maxBytes, (one) => (bytesOf(one) > maxBytes ? 0 : bytesOf(one))),
    ),
  }),
  ...brokenOutbox('maxBytes counts all destinations together, including retries and attributes', {
    'attributes are not counted': choosing((found, { maxBytes }) => withinBytes(found, maxBytes, ({ message }) => message.data.byteLength)),
    'retries are not counted': choosing((found, { maxBytes }) =>
      withinBytes(found, maxBytes, (one) => (one.attempts > 1 ? 0 : bytesOf(one))),
    ),
    'each destination is counted by itself': choosing((found, { maxBytes }) =>
      [...new Set(found.map(({ destination }) => destination))].flatMap((destination) =>
        withinBytes(
          found.filter((one) => one.destination === destination),
          maxBytes,
          bytesOf,
        ),
      ),
    ),
  }),
  ...brokenOutbox('a claim skips records that are leased to others and does not wait for them', {
    'claim ignores leases': () => {
      const leased: ClaimedRecord[] = []
      return {
        store: (store) => ({
          async claim(options) {
            await store.release(leased.splice(0))
            const claimed = await store.claim(options)
            leased.push(...claimed)
            return claimed
          },
        }),
      }
    },
  }),
  ...brokenOutbox('concurrent claims of two relays never share a record', {
    'two claims find the same records before either takes them': () => {
      let claiming: Promise<readonly ClaimedRecord[]> | undefined
      return {
        store: (store) => ({
          claim(options) {
            claiming ??= store.claim(options).finally(() => {
              claiming = undefined
            })
            return claiming
          },
        }),
      }
    },
  }),
  ...brokenOutbox('an expired lease is taken over, with a new token and the attempt counted', {
    'a lease never expires': claimingWith((options) => ({ ...options, lease: forever })),
    'a takeover is not counted as an attempt': () => {
      const claimedBefore = new Set<string>()
      return {
        store: (store) => ({
          async claim(options) {
            const claimed = await store.claim(options)
            const shown = claimed.map((one) => (claimedBefore.has(one.id) ? { ...one, attempts: one.attempts - 1 } : one))
            for (const { id } of claimed) claimedBefore.add(id)
            return shown
          },
        }),
      }
    },
  }),
  ...brokenOutbox('an attempt counts when a record is claimed, not when it is settled', {
    'failures are counted instead of claims': () => {
      const failures = new Map<string, number>()
      const count = (id: string) => failures.get(id) ?? 0
      return {
        store: (store) => ({
          ...viewsOf(store, (record) => ({ ...record, attempts: count(record.id) })),
          async claim(options) {
            return (await store.claim(options)).map((one) => ({ ...one, attempts: count(one.id) }))
          },
          async settle(outcomes) {
            for (const { id } of outcomes) failures.set(id, count(id) + 1)
            return await store.settle(outcomes)
          },
        }),
      }
    },
  }),
  ...brokenOutbox("a claim reports how long ago each record was stored, by the store's clock", wrongAges),
  ...brokenOutbox('every claim has its own token', {
    'all claims have the same token': () => {
      const latest = new LatestClaims()
      return {
        store: (store) => ({
          claim: async (options) => (await latest.claim(store, options)).map((one) => ({ ...one, token: 'token' })),
          renew: (claims, lease) => store.renew(latest.impersonating(claims), lease),
          release: (claims) => store.release(latest.impersonating(claims)),
          settle: (outcomes) => store.settle(latest.impersonating(outcomes)),
        }),
      }
    },
  }),
  ...brokenOutbox('a claim can select destinations', {
    'destinations is ignored': claimingWith((options) => ({ ...options, destinations: undefined })),
    'only the first destination counts': claimingWith((options) => ({ ...options, destinations: options.destinations?.slice(0, 1) })),
  }),
  ...brokenOutbox('a claim can exclude destinations', {
    'except is ignored': claimingWith((options) => ({ ...options, except: undefined })),
    'an empty except excludes everything': overriding((store) => ({
      claim: async (options) => (options.except?.length === 0 ? [] : await store.claim(options)),
    })),
  }),
  ...brokenOutbox('a claim can select records that have failed before, or records that have not', {
    'retried is ignored': claimingWith((options) => ({ ...options, retried: undefined })),
  }),
  ...brokenOutbox('a destination with 2,000 records does not hide the records of another', {
    'a claim looks at the first 1,000 records only': choosing(async (found, { limit }, store) => {
      const first = new Set((await store.list({}, { limit: 1000 })).records.map(({ id }) => id))
      return found.filter(({ id }) => first.has(id)).slice(0, limit)
    }),
  }),
  ...brokenOutbox('renew extends the lease, counted from now', {
    'renew succeeds and does nothing': overriding(() => ({ renew: async (claims) => claims.map(() => true) })),
    'renewals add up': () => {
      let renewals = 0
      return {
        store: (store) => ({
          renew(claims, lease) {
            renewals += 1
            return store.renew(claims, lease * (1 + renewals))
          },
        }),
      }
    },
  }),
  ...brokenOutbox('renew of a lost claim returns false and does not affect the new owner', {
    'renew ignores the token': ignoringTokens('renew'),
  }),
  ...brokenOutbox('after the lease has expired, renew and settle agree on whether the claim is lost', {
    'settle checks the token, renew also the time': () => {
      const latest = new LatestClaims()
      return {
        store: (store) => ({
          claim: (options) => latest.claim(store, options),
          async settle(outcomes) {
            const answers = await store.settle(outcomes)
            return await Promise.all(
              outcomes.map(async (outcome, index) => {
                if (answers[index] === 'applied' || latest.get(outcome.id)?.token !== outcome.token) return answers[index] ?? 'lost'
                const { token } = await claimRecord(store, outcome.id)
                await store.settle([{ ...outcome, token }])
                return 'applied'
              }),
            )
          },
        }),
      }
    },
  }),
  ...brokenOutbox('a released record can be claimed immediately, and its attempt is not counted', {
    'release keeps the attempt': overriding((store) => ({
      async release(claims) {
        await store.settle(claims.map(({ id, token }) => ({ id, token, result: 'failed', error: 'released', retryAfter: 0 })))
      },
    })),
    'release does nothing': overriding(() => ({ release: async () => {} })),
  }),
  ...brokenOutbox('release restores a record to its state before the claim, including earlier failures', {
    'release resets the attempts': overriding((store) => ({
      async release(claims) {
        await store.settle(claims.map(({ id, token }) => ({ id, token, result: 'parked', error: 'second' })))
        await store.rearm({ ids: claims.map(({ id }) => id) })
      },
    })),
  }),
  ...brokenOutbox('release of a lost claim does not affect the new owner', {
    'release ignores the token': ignoringTokens('release'),
  }),
  ...brokenOutbox('acting on one claim of a batch does not affect the others', {
    'a call acts on the whole batch of a claim': () => {
      const batches: (readonly ClaimedRecord[])[] = []
      const batchOf = (claim: Claim): readonly Claim[] =>
        batches.find((batch) => batch.some(({ token }) => token === claim.token)) ?? [claim]
      return {
        store: (store) => ({
          async claim(options) {
            const batch = await store.claim(options)
            batches.push(batch)
            return batch
          },
          release: (claims) => store.release(claims.flatMap(batchOf)),
          async settle(outcomes) {
            await store.settle(outcomes.flatMap((outcome) => batchOf(outcome).map(({ id, token }) => ({ ...outcome, id, token }))))
            return outcomes.map(() => 'applied')
          },
        }),
      }
    },
  }),
  ...brokenOutbox('wake-ups, if supported, end when their signal is aborted', {
    'wake-ups never end': overriding((store) => ({
      wakeUps: () => wakeUpsOf(store, new AbortController().signal),
    })),
  }),
  ...brokenOutbox('a published record is never claimed again', {
    'published records are not marked': overriding((store) => ({
      async settle(outcomes) {
        await store.settle(outcomes.filter(({ result }) => result !== 'published'))
        return outcomes.map(() => 'applied')
      },
    })),
  }),
  ...brokenOutbox('a failed record is retried when its delay is over, and not before', {
    'retryAfter is ignored': settling((outcome) => (outcome.result === 'failed' ? { ...outcome, retryAfter: 0 } : outcome)),
    'a failed record waits for the end of a long lease': settling((outcome) =>
      outcome.result === 'failed' ? { ...outcome, retryAfter: 100 * 3_600_000 } : outcome,
    ),
  }),
  ...brokenOutbox('a failed record without a delay can be claimed immediately', {
    'a delay of 0 becomes one of a second': settling((outcome) =>
      outcome.result === 'failed' ? { ...outcome, retryAfter: outcome.retryAfter || 1000 } : outcome,
    ),
  }),
  ...brokenOutbox('a parked record stays parked, however much time passes, and keeps its error', {
    'a parked record is retried after a week': ({ now }) => ({
      store: (store) => ({
        async claim(options) {
          const { records } = await store.list({ state: 'parked' }, { limit: 1000 })
          const old = records.filter(({ parkedAt = Infinity }) => now() - parkedAt > week)
          await store.rearm({ ids: old.map(({ id }) => id) }, {}, { keepAttempts: true })
          return await store.claim(options)
        },
      }),
    }),
    'the error is not stored': showing((record) => ({ ...record, lastError: undefined })),
  }),
  ...brokenOutbox('settle accepts a mixed batch and answers for each outcome, in order', {
    'the answers come in another order': overriding((store) => ({ settle: async (outcomes) => (await store.settle(outcomes)).toSorted() })),
    'lost claims get no answer': overriding((store) => ({
      settle: async (outcomes) => (await store.settle(outcomes)).filter((answer) => answer !== 'lost'),
    })),
  }),
  ...brokenOutbox('settle with a stale token changes nothing', {
    'settle ignores the token': ignoringTokens('settle'),
  }),
  ...brokenOutbox('settling a claim a second time changes nothing', {
    'a claim outlives its settlement': () => {
      const settled = new Set<string>()
      return {
        store: (store) => ({
          async settle(outcomes) {
            const again = outcomes.filter(({ token }) => settled.has(token))
            for (const { id } of again) {
              await store.park([id], 'again')
              await store.rearm({ ids: [id] }, {}, { keepAttempts: true })
            }
            const claims = new Map<string, string>()
            for (const { id } of again) claims.set(id, (await claimRecord(store, id)).token)
            for (const { token } of outcomes) settled.add(token)
            return await store.settle(outcomes.map((outcome) => ({ ...outcome, token: claims.get(outcome.id) ?? outcome.token })))
          },
        }),
      }
    },
  }),
  ...brokenOutbox('settle, renew and release accept empty lists', {
    'an empty list is an error': refusingEmptyLists,
  }),
  ...brokenOutbox('an error text of almost 2,000 characters is kept complete', {
    'error texts are cut at 255 characters': settling((outcome) =>
      outcome.result === 'published' ? outcome : { ...outcome, error: outcome.error.slice(0, 255) },
    ),
  }),
  ...brokenOutbox('the store behaves as the model in random histories, and every record ends claimable, published or parked', {
    'a record that failed three times is never found again': overriding((store) => ({
      claim: (options) => claimChosen(store, options, (found) => found.filter(({ attempts }) => attempts <= 3).slice(0, options.limit)),
    })),
    'the second failure leaves a lease that never expires': () => {
      const latest = new LatestClaims()
      const isSecond = (id: string) => latest.get(id)?.attempts === 2
      return {
        store: (store) => ({
          claim: (options) => latest.claim(store, options),
          async settle(outcomes) {
            return await Promise.all(
              outcomes.map(async (outcome) => {
                if (outcome.result !== 'failed' || !isSecond(outcome.id)) return (await store.settle([outcome]))[0] ?? 'lost'
                return (await store.renew([outcome], forever))[0] === true ? 'applied' : 'lost'
              }),
            )
          },
        }),
      }
    },
  }),
]

/** The bytes of a record, as `ClaimOptions.maxBytes` counts them. */
function bytesOf({ message }: ClaimedRecord): number {
  return message.data.byteLength + Buffer.byteLength(JSON.stringify(message.attributes))
}

/** The first records that fit, and at least one. */
function withinBytes(
  found: readonly ClaimedRecord[],
  maxBytes: number | undefined,
  sizeOf: (one: ClaimedRecord) => number,
): readonly ClaimedRecord[] {
  if (maxBytes === undefined) return found
  let bytes = 0
  const end = found.findIndex((one, index) => {
    bytes += sizeOf(one)
    return index > 0 && bytes > maxBytes
  })
  return end === -1 ? found : found.slice(0, end)
}

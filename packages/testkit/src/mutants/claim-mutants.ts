import type { Mutant } from '../run/scenario.ts'
import type { OpenOutboxWorld } from '../suites/outbox/outbox-world.ts'
import { bytesOf, outboxRules, withinBytes } from './outbox-rules.ts'
import { brokenOutbox } from './ruled-outbox-world.ts'

const { selects, settle, release, holds } = outboxRules

/** Stores that break their word to relays: claims, leases, outcomes. */
export const claimMutants: readonly Mutant<OpenOutboxWorld>[] = [
  ...brokenOutbox('a claim takes no more than its limit', {
    'the limit is off by one': { limit: (limit) => limit + 1 },
  }),
  ...brokenOutbox('a claim stops before the record that would exceed its bytes, and leaves that record untouched', {
    'maxBytes is ignored': { bounds: (rows) => rows },
    'a claim ends with the record that exceeds its bytes': {
      bounds: (rows, maxBytes) => rows.slice(0, withinBytes(rows, maxBytes, bytesOf).length + 1),
    },
    'what did not fit has lost an attempt': {
      bounds(rows, maxBytes) {
        const taken = withinBytes(rows, maxBytes, bytesOf)
        for (const row of rows.slice(taken.length)) row.attempts += 1
        return taken
      },
    },
  }),
  ...brokenOutbox('a record that is larger than a claim may be is claimed alone, and does not block those behind it', {
    'a record that is too large is never claimed': {
      bounds: (rows, maxBytes) => withinBytes(rows, maxBytes, bytesOf).filter((row) => bytesOf(row) <= maxBytes),
    },
    'a record that is too large is not counted': {
      bounds: (rows, maxBytes) => withinBytes(rows, maxBytes, (row) => (bytesOf(row) > maxBytes ? 0 : bytesOf(row))),
    },
  }),
  ...brokenOutbox('the bytes of a claim are those of all destinations together, retries and attributes included', {
    'attributes are not counted': { bounds: (rows, maxBytes) => withinBytes(rows, maxBytes, ({ data }) => data.byteLength) },
    'retries are not counted': { bounds: (rows, maxBytes) => withinBytes(rows, maxBytes, (row) => (row.attempts > 0 ? 0 : bytesOf(row))) },
    'each destination is counted by itself': {
      bounds: (rows, maxBytes) =>
        [...new Set(rows.map(({ destination }) => destination))].flatMap((destination) =>
          withinBytes(
            rows.filter((row) => row.destination === destination),
            maxBytes,
            bytesOf,
          ),
        ),
    },
  }),
  ...brokenOutbox('what is leased to one is skipped by all others, and not waited for', {
    'claim ignores leases': { isLeased: () => false },
  }),
  ...brokenOutbox('concurrent claims of two relays never share a record', {
    'records are found first and taken later': { takesAtOnce: false },
  }),
  ...brokenOutbox('a lease that ran out is taken over, with a new token and the attempt counted', {
    'a lease never runs out': { isLeased: (row) => row.token !== undefined },
    'a take-over is no attempt': { countAttempt: (row, takenOver) => row.attempts + (takenOver ? 0 : 1) },
  }),
  ...brokenOutbox('an attempt counts when a record is claimed, not when it is settled', {
    'failures are counted, not claims': {
      countAttempt: (row) => row.attempts,
      settle(row, outcome, now) {
        row.attempts += 1
        settle(row, outcome, now)
      },
    },
  }),
  ...brokenOutbox('every claim has a token of its own', {
    'all claims have the same token': { token: () => 'token' },
  }),
  ...brokenOutbox('a claim for some destinations finds theirs and no others', {
    'destinations is ignored': { selects: (row, { destinations: _, ...options }) => selects(row, options) },
    'only the first destination counts': {
      selects: (row, options) => selects(row, { ...options, destinations: options.destinations?.slice(0, 1) }),
    },
  }),
  ...brokenOutbox('a claim except some destinations finds all others', {
    'except is ignored': { selects: (row, { except: _, ...options }) => selects(row, options) },
    'an empty except means all': { selects: (row, options) => options.except?.length !== 0 && selects(row, options) },
  }),
  ...brokenOutbox('a claim can be for records that have failed before, or for those that have not', {
    'retried is ignored': { selects: (row, { retried: _, ...options }) => selects(row, options) },
  }),
  ...brokenOutbox('a destination with 2,000 records does not hide those of another', {
    'a claim looks at the first 1,000 only': { scan: (rows) => rows.slice(0, 1000) },
  }),
  ...brokenOutbox('renew extends the lease, counted from now', {
    'renew says yes and does nothing': { renew() {} },
    'renewals add up': {
      renew(row, until) {
        row.leasedUntil = Math.max(row.leasedUntil + 60_000, until)
      },
    },
  }),
  ...brokenOutbox('renew of a lost claim says so, and takes nothing from its new owner', {
    'renew ignores the token': { holds: (row, claim, now, call) => call === 'renew' || holds(row, claim, now, call) },
  }),
  ...brokenOutbox('after the lease ran out, renew and settle agree on whether the claim is lost', {
    'settle looks at the token, renew also at the time': {
      holds: (row, claim, now, call) => (call === 'settle' ? row.token === claim.token : holds(row, claim, now, call)),
    },
  }),
  ...brokenOutbox('a released record can be claimed at once, and its attempt was not counted', {
    'release keeps the attempt': {
      release(row) {
        row.token = undefined
      },
    },
    'release does nothing': { release() {} },
  }),
  ...brokenOutbox('release leaves a record as it was before the claim, earlier failures included', {
    'release starts over': {
      release(row) {
        release(row)
        row.attempts = 0
      },
    },
  }),
  ...brokenOutbox('release of a lost claim leaves its new owner alone', {
    'release ignores the token': { holds: (row, claim, now, call) => call === 'release' || holds(row, claim, now, call) },
  }),
  ...brokenOutbox('acting on one claim of a batch leaves its neighbours alone', {
    'a batch has one token, and it is all that counts': { actsOnToken: true },
  }),
  ...brokenOutbox('wake-ups, where there are any, end when their signal is aborted', {
    'wake-ups never end': { endsWakeUps: false },
  }),
  ...brokenOutbox('a published record is never claimed again', {
    'published is not written down': {
      settle(row, outcome, now) {
        if (outcome.result !== 'published') settle(row, outcome, now)
      },
    },
  }),
  ...brokenOutbox('a failed record comes again after its time, and not before', {
    'retryAfter is ignored': {
      settle: (row, outcome, now) => settle(row, outcome.result === 'failed' ? { ...outcome, retryAfter: 0 } : outcome, now),
    },
    'a failed record waits for the end of its lease': {
      settle(row, outcome, now) {
        const { token } = row
        settle(row, outcome, now)
        if (outcome.result === 'failed') Object.assign(row, { token, leasedUntil: now + 100 * 3_600_000 })
      },
    },
  }),
  ...brokenOutbox('a failed record without a delay can be claimed at once', {
    'a delay of none becomes one of a second': {
      settle: (row, outcome, now) =>
        settle(row, outcome.result === 'failed' ? { ...outcome, retryAfter: outcome.retryAfter || 1000 } : outcome, now),
    },
  }),
  ...brokenOutbox('a parked record stays parked, whatever time passes, with what it failed with', {
    'a parked record is tried again after a week': {
      isPending: (row, now) => row.status === 'pending' || (row.status === 'parked' && now - (row.parkedAt ?? 0) > 7 * 86_400_000),
    },
    'the error is not kept': {
      settle(row, outcome, now) {
        settle(row, outcome, now)
        row.lastError = undefined
      },
    },
  }),
  ...brokenOutbox('settle takes a mixed batch and answers for each outcome, in their order', {
    'the answers come in another order': { answers: (answers) => answers.toSorted() },
    'lost claims get no answer': { answers: (answers) => answers.filter((answer) => answer !== 'lost') },
  }),
  ...brokenOutbox('settle with a stale token changes nothing', {
    'settle ignores the token': { holds: (row, claim, now, call) => call === 'settle' || holds(row, claim, now, call) },
  }),
  ...brokenOutbox('a claim that was settled is over: settling it again changes nothing', {
    'a claim outlives its settlement': {
      settle(row, outcome, now) {
        const { token } = row
        settle(row, outcome, now)
        row.token = token
      },
    },
  }),
  ...brokenOutbox('settle, renew and release take empty lists', {
    'an empty list is an error': { refusesEmptyLists: true },
  }),
  ...brokenOutbox('an error text of almost 2,000 characters is kept whole', {
    'error texts are cut at 255': {
      settle(row, outcome, now) {
        settle(row, outcome, now)
        row.lastError = row.lastError?.slice(0, 255)
      },
    },
  }),
]

import { isAckordError, silentLogger, withSignal } from '@ackord/core'
import { TransactionScope, transactionScopeKey } from '@ackord/core/internal'
import type { IdempotencyKey, StoredAnswer } from '@ackord/outbox'
import { eventLoopTurn } from '../../../src/helpers/virtual-runtime.ts'
import type { OpenIdempotencyWorld } from '../../../src/suites/idempotency/idempotency-world.ts'
import type { Mutant } from '../../support/mutant.ts'
import { answering, brokenIdempotency, type DecorateWorld, rewriting, storing, writesLostClaims } from './decorated-idempotency.ts'

const inKey = (change: (text: string) => string) => rewriting({ key: ({ scope, key }) => ({ scope, key: change(key) }) })
const inScope = (change: (text: string) => string) => rewriting({ key: ({ scope, key }) => ({ scope: change(scope), key }) })

function printable(text: string): string {
  return text.replaceAll(/[^\x20-\x7e]/g, '').trim() || 'empty'
}

/** Uses the latest token of the key, whichever is given. */
const releasesAnyToken: DecorateWorld = storing((real, known) => ({
  release: async (key, token) => await real.release(key, known.of(key)?.token ?? token),
}))
const writesUnderAnyToken: DecorateWorld = storing((real, known) => ({
  write: async (key, token, work, options) => await real.write(key, known.of(key)?.token ?? token, work, options),
}))

/** The fingerprint of the first claim, in one of its states. */
function forgivingFingerprints(whenAnswered: boolean): DecorateWorld {
  return storing((real, known) => ({
    async claim(key, options) {
      const claim = known.of(key)
      return await real.claim(key, claim?.answered === whenAnswered ? { ...options, fingerprint: claim.fingerprint } : options)
    },
  }))
}

/** Waits for the writes that are open when it is called. */
function waitingForWrites(): DecorateWorld {
  return storing((real) => {
    const open = new Set<Promise<unknown>>()
    return {
      async claim(key, options) {
        await Promise.allSettled(open)
        return await real.claim(key, options)
      },
      async write(key, token, work, options) {
        const writing = real.write(key, token, work, options)
        open.add(writing)
        try {
          return await writing
        } finally {
          open.delete(writing)
        }
      },
    }
  })
}

const claimMutants: readonly Mutant<OpenIdempotencyWorld>[] = [
  ...brokenIdempotency('the fixture does what it claims', {
    'time stands still': () => ({ advance: async () => {} }),
    'the first value stays': (world) => {
      const written = new Set<string>()
      return {
        async put(work, key, value) {
          if (written.has(key)) return
          written.add(key)
          await world.put(work, key, value)
        },
      }
    },
    'events are lost': () => ({ append: async () => {} }),
  }),
  ...brokenIdempotency('the first claim of a key gets it, and the next one finds it running', {
    'every claim gets the key': storing((real) => ({
      async claim(key, options) {
        const found = await real.claim(key, options)
        return found.state === 'running' ? { state: 'claimed', token: 'another' } : found
      },
    })),
    'nothing remains': storing((real) => ({
      async claim(key, options) {
        const found = await real.claim(key, options)
        return found.state === 'running' ? { ...found, remaining: 0 } : found
      },
    })),
  }),
  ...brokenIdempotency('a running request tells how much of its lease remains, and claims of others do not prolong it', {
    'the whole lease remains': storing((real) => ({
      async claim(key, options) {
        const found = await real.claim(key, options)
        return found.state === 'running' ? { ...found, remaining: options.lease } : found
      },
    })),
  }),
  ...brokenIdempotency('of many concurrent claims exactly one gets the key', {
    'a claim reads first and writes later': storing((real) => {
      const seen = new Set<string>()
      return {
        async claim(key, options) {
          const isNew = !seen.has(key.key)
          await eventLoopTurn()
          seen.add(key.key)
          const found = await real.claim(key, options)
          return isNew ? { state: 'claimed', token: 'another' } : found
        },
      }
    }),
  }),
  ...brokenIdempotency('of many concurrent claims after the end of a lease exactly one takes over', {
    'everybody takes over': storing((real) => {
      let claims = 0
      return {
        async claim(key, options) {
          const found = await real.claim(key, options)
          if (found.state === 'claimed') claims += 1
          return claims > 1 ? { state: 'claimed', token: 'another' } : found
        },
      }
    }),
  }),
  ...brokenIdempotency('another fingerprint is a mismatch while the request is running, and changes nothing', {
    'fingerprints of running requests are ignored': forgivingFingerprints(false),
    'a mismatch takes the claim away': storing((real, known) => ({
      async claim(key, options) {
        const found = await real.claim(key, options)
        if (found.state === 'mismatch') await real.release(key, known.of(key)?.token ?? '')
        return found
      },
    })),
  }),
  ...brokenIdempotency('another fingerprint is a mismatch when the request is answered', {
    'fingerprints of answered requests are ignored': forgivingFingerprints(true),
  }),
  ...brokenIdempotency('another fingerprint does not take over a claim whose lease has ended', {
    'everybody may take over': storing((real, known) => ({
      async claim(key, options) {
        const found = await real.claim(key, options)
        if (found.state !== 'mismatch') return found
        const again = await real.claim(key, { ...options, fingerprint: known.of(key)?.fingerprint ?? '' })
        return again.state === 'claimed' ? again : found
      },
    })),
  }),
  ...brokenIdempotency('fingerprints are compared byte by byte', {
    'fingerprints are compared without case': rewriting({ claim: (given) => ({ ...given, fingerprint: given.fingerprint.toLowerCase() }) }),
    'fingerprints are compared without trailing spaces': rewriting({
      claim: (given) => ({ ...given, fingerprint: given.fingerprint.trimEnd() }),
    }),
  }),
  ...brokenIdempotency('scopes and keys that look alike are different requests', {
    'keys are compared without case': inKey((key) => key.toLowerCase()),
    'scopes are compared without case': inScope((scope) => scope.toLowerCase()),
    'keys are compared without trailing spaces': inKey((key) => key.trimEnd()),
    'keys are normalised': inKey((key) => key.normalize('NFC')),
    'keys are compared without accents': inKey((key) => key.normalize('NFD').replaceAll(/\p{M}/gu, '')),
    'scope and key are joined': rewriting({ key: ({ scope, key }) => ({ scope: 'all', key: scope + key }) }),
    'the scope is ignored': inScope(() => 'all'),
  }),
  ...brokenIdempotency('scopes and keys may have any characters', {
    'keys are printable': inKey((key) => printable(key)),
    'scopes are printable': inScope((scope) => printable(scope)),
    'control characters are rejected': inKey((key) => {
      if (key.includes('\t')) throw new Error('invalid key')
      return key
    }),
  }),
  ...brokenIdempotency('scopes and keys may have 255 characters, and longer ones are rejected', {
    'long keys are cut': inKey((key) => key.slice(0, 255)),
    'long scopes are cut': inScope((scope) => scope.slice(0, 255)),
    'keys have at most 200 characters': inKey((key) => key.slice(0, 200)),
    'keys have at most 255 bytes': inKey((key) => Buffer.from(key).subarray(0, 255).toString()),
  }),
  ...brokenIdempotency('invalid keys and options are rejected', {
    'an empty key is accepted': inKey((key) => key || 'empty'),
    'keys are made well-formed': inKey((key) => key.toWellFormed()),
    'a lease has at least a millisecond': rewriting({ claim: (given) => ({ ...given, lease: given.lease || 1 }) }),
    'a retention has an end': rewriting({ write: (given) => ({ ...given, retention: Math.min(given.retention, 1e9) }) }),
  }),
]

const answerMutants: readonly Mutant<OpenIdempotencyWorld>[] = [
  ...brokenIdempotency('an answer is found again with its status, its headers and its exact bytes', {
    'bodies are text': answering((answer) => ({ ...answer, body: new TextEncoder().encode(new TextDecoder().decode(answer.body)) })),
    'every answer is a success': answering((answer) => ({ ...answer, status: 200 })),
    'only the type of the content is kept': answering((answer) => ({ ...answer, headers: answer.headers.slice(0, 1) })),
  }),
  ...brokenIdempotency('an empty body and no headers are an answer too', {
    'an answer has a header': answering((answer) => ({
      ...answer,
      headers: answer.headers.length > 0 ? answer.headers : [['x-none', '']],
    })),
    'an empty body is null': answering((answer) => ({
      ...answer,
      body: answer.body.length > 0 ? answer.body : new TextEncoder().encode('null'),
    })),
  }),
  ...brokenIdempotency('repeated headers keep their number and order, and values any characters', {
    'the last header of a name wins': answering((answer) => ({ ...answer, headers: [...new Map(answer.headers)] })),
    'headers are sorted': answering((answer) => ({ ...answer, headers: answer.headers.toSorted() })),
    'values are Latin-1': answering((answer) => ({
      ...answer,
      headers: answer.headers.map(([name, value]) => [name, Buffer.from(value, 'latin1').toString('latin1')] as const),
    })),
    'empty headers are dropped': answering((answer) => ({ ...answer, headers: answer.headers.filter(([, value]) => value !== '') })),
  }),
  ...brokenIdempotency('an answer may have many headers and a large body', {
    'a hundred headers are kept': answering((answer) => ({ ...answer, headers: answer.headers.slice(0, 100) })),
    'a body has 64 kilobytes': answering((answer) => ({ ...answer, body: answer.body.slice(0, 65_536) })),
  }),
  ...brokenIdempotency('a stored answer does not change with the objects that it was made of', {
    'the object is kept': storing((real) => {
      const kept = new Map<string, StoredAnswer>()
      return {
        async claim(key, options) {
          const found = await real.claim(key, options)
          return found.state === 'answered' ? { state: 'answered', answer: kept.get(key.key) ?? found.answer } : found
        },
        async write(key, token, work, options) {
          const answer = await real.write(key, token, work, options)
          kept.set(key.key, answer)
          return answer
        },
      }
    }),
    'the object is handed out': storing((real) => {
      const found = new Map<string, StoredAnswer>()
      return {
        async claim(key, options) {
          const claim = await real.claim(key, options)
          if (claim.state !== 'answered') return claim
          const answer = found.get(key.key) ?? claim.answer
          found.set(key.key, answer)
          return { state: 'answered', answer }
        },
      }
    }),
  }),
  ...brokenIdempotency('an invalid answer is rejected, and nothing is stored', {
    'invalid answers are corrected': rewriting({
      work: (work) => async (transaction, context) => {
        const answer: Partial<StoredAnswer> | undefined = await work(transaction, context)
        return { status: 200, headers: [], body: answer?.body instanceof Uint8Array ? answer.body : new Uint8Array() }
      },
    }),
  }),
  ...brokenIdempotency('an answer is remembered for its retention, from the commit on, and is then absent', {
    'an answer is remembered too briefly': rewriting({ write: (given) => ({ ...given, retention: given.retention - 30_000 }) }),
    'an answer is remembered too long': rewriting({ write: (given) => ({ ...given, retention: given.retention * 2 }) }),
  }),
  ...brokenIdempotency('a token is of no use when the retention of its answer has ended', {
    'an expired token gets a new claim': storing((real, known) => ({
      async write(key, token, work, options) {
        const { fingerprint = '', answered = false } = known.of(key) ?? {}
        if (!answered) return await real.write(key, token, work, options)
        const found = await real.claim(key, { fingerprint, lease: 60_000 })
        return await real.write(key, found.state === 'claimed' ? found.token : token, work, options)
      },
    })),
  }),
]

const ownershipMutants: readonly Mutant<OpenIdempotencyWorld>[] = [
  ...brokenIdempotency('a released key can be claimed at once, also for another request', {
    'nothing is released': storing(() => ({ release: async () => {} })),
    'a released claim can be written': writesLostClaims,
  }),
  ...brokenIdempotency('a release under another token, or of an absent key, has no effect', {
    'the token is ignored': releasesAnyToken,
  }),
  ...brokenIdempotency('a release after the answer has no effect', {
    'a release deletes the answer': storing((real, known) => {
      let released = 0
      const keyOf = ({ scope, key }: IdempotencyKey) => ({ scope, key: `${key} ${released}` })
      return {
        claim: (key, options) => real.claim(keyOf(key), options),
        write: (key, token, work, options) => real.write(keyOf(key), token, work, options),
        async release(key) {
          if (known.of(keyOf(key))?.answered === true) released += 1
        },
      }
    }),
  }),
  ...brokenIdempotency('a claim can be taken over when its lease has ended, and not before', {
    'a lease never ends': rewriting({ claim: (given) => ({ ...given, lease: given.lease * 1000 }) }),
    'a lease ends too early': rewriting({ claim: (given) => ({ ...given, lease: given.lease / 4 }) }),
  }),
  ...brokenIdempotency('after a takeover the write of the first request is rejected and leaves nothing', {
    'the token is ignored': writesUnderAnyToken,
    'the work is committed nevertheless': writesLostClaims,
    'the rejection is another one': storing((real) => ({
      async write(key, token, work, options) {
        try {
          return await real.write(key, token, work, options)
        } catch {
          throw new Error('failed')
        }
      },
    })),
  }),
  ...brokenIdempotency('after a takeover the release of the first request has no effect', {
    'the token is ignored': releasesAnyToken,
  }),
  ...brokenIdempotency('without a takeover the request that has the claim commits after its lease has ended', {
    'the end of the lease is the end of the claim': storing((real, known) => ({
      async write(key, token, work, options) {
        // Takes over if the lease has ended.
        await real.claim(key, { fingerprint: known.of(key)?.fingerprint ?? '', lease: 60_000 })
        return await real.write(key, token, work, options)
      },
    })),
  }),
  ...brokenIdempotency('without a takeover the request that has the claim can release it after its lease has ended', {
    'the end of the lease is the end of the claim': storing((real, known) => ({
      async release(key, token) {
        await real.claim(key, { fingerprint: known.of(key)?.fingerprint ?? '', lease: 60_000 })
        await real.release(key, token)
      },
    })),
  }),
  ...brokenIdempotency('a takeover during the work rejects the write and leaves nothing', {
    'the work is committed nevertheless': writesLostClaims,
    'the token is ignored': writesUnderAnyTokenAtTheEnd(),
  }),
  ...brokenIdempotency('a release during the work rejects the write and leaves nothing', {
    'the work is committed nevertheless': writesLostClaims,
  }),
]

/** Takes the claim back before it commits. */
function writesUnderAnyTokenAtTheEnd(): DecorateWorld {
  return storing((real, known) => ({
    async write(key, token, work, options) {
      try {
        return await real.write(key, token, work, options)
      } catch (error) {
        if (!isAckordError(error, 'ACKORD_CLAIM_LOST')) throw error
        return await real.write(key, known.of(key)?.token ?? '', work, options)
      }
    },
  }))
}

const writeMutants: readonly Mutant<OpenIdempotencyWorld>[] = [
  ...brokenIdempotency('business writes and events are committed with the answer', {
    'only the answer is committed': storing((real) => ({
      async write(key, token, work, options) {
        let answer: StoredAnswer | undefined
        const rollback = new Error('rolled back')
        const undone = async (...given: Parameters<typeof work>): Promise<never> => {
          answer = await work(...given)
          throw rollback
        }
        await real.write(key, token, undone, options).catch((error: unknown) => {
          if (error !== rollback) throw error
        })
        return await real.write(key, token, async () => answer as StoredAnswer, options)
      },
    })),
    'only the work is committed': storing((real) => ({
      async write(_key, token, work, options) {
        const spare = { scope: 'spare', key: token }
        const found = await real.claim(spare, { fingerprint: 'spare', lease: 60_000 })
        return await real.write(spare, found.state === 'claimed' ? found.token : '', work, options)
      },
    })),
  }),
  ...brokenIdempotency('work that rejects leaves neither writes, events nor an answer, and keeps the claim', {
    'a failure releases the claim': storing((real) => ({
      async write(key, token, work, options) {
        try {
          return await real.write(key, token, work, options)
        } catch (error) {
          await real.release(key, token)
          throw error
        }
      },
    })),
    'a failure is an answer': rewriting({
      work: (work) => async (transaction, context) => {
        try {
          return await work(transaction, context)
        } catch {
          return { status: 500, headers: [], body: new Uint8Array() }
        }
      },
    }),
  }),
  ...brokenIdempotency('a token writes once', {
    'the second write wins': writesLostClaims,
  }),
  ...brokenIdempotency('a write under an unknown token, or of another key, leaves nothing', {
    'the token is ignored': writesUnderAnyToken,
    'no claim is needed': storing((real, known) => ({
      async write(key, token, work, options) {
        if (known.of(key) !== undefined) return await real.write(key, token, work, options)
        const found = await real.claim(key, { fingerprint: 'f1', lease: 60_000 })
        return await real.write(key, found.state === 'claimed' ? found.token : token, work, options)
      },
    })),
  }),
  ...brokenIdempotency('the work is done once, in the given context or the ambient one, with the transaction in it', {
    'the work is done twice': rewriting({
      work: (work) => async (transaction, context) => {
        await work(transaction, context)
        return await work(transaction, context)
      },
    }),
    'the given context is ignored': rewriting({ write: ({ retention }) => ({ retention }) }),
  }),
  ...brokenIdempotency('a context that is aborted during the work rolls everything back', {
    'the signal is ignored': rewriting({
      write: ({ retention, context }) => ({
        retention,
        context: context === undefined ? undefined : withSignal(context, new AbortController().signal),
      }),
    }),
  }),
  ...brokenIdempotency('afterCommit runs when the answer is stored, and afterRollback when it is not', {
    'afterCommit runs before the commit': rewriting({
      work: (work) => async (transaction, context) => {
        const scope = new TransactionScope(context, { logger: silentLogger })
        const answer = await work(transaction, context.with(transactionScopeKey, scope))
        await scope.end('committed')
        return answer
      },
    }),
    'no callback runs': rewriting({
      work: (work) => async (transaction, context) =>
        await work(transaction, context.with(transactionScopeKey, new TransactionScope(context, { logger: silentLogger }))),
    }),
  }),
  ...brokenIdempotency('two requests in progress have separate transactions', {
    'the failure of one is the failure of both': storing((real) => {
      let failure: { readonly error: unknown } | undefined
      return {
        async write(key, token, work, options) {
          const shared: typeof work = async (transaction, context) => {
            const answer = await work(transaction, context)
            await eventLoopTurn()
            if (failure !== undefined) throw failure.error
            return answer
          }
          try {
            return await real.write(key, token, shared, options)
          } catch (error) {
            failure = { error }
            throw error
          }
        },
      }
    }),
  }),
]

const contentionMutants: readonly Mutant<OpenIdempotencyWorld>[] = [
  ...brokenIdempotency('a claim does not wait for the open transaction of the request that has the key', {
    'claims wait for writes': waitingForWrites(),
  }),
  ...brokenIdempotency('two concurrent writes under one token commit once', {
    'both commit': writesLostClaims,
  }),
  ...brokenIdempotency('processes that compete and take over from each other answer each request once', {
    'a lost claim is committed': writesLostClaims,
  }),
  ...brokenIdempotency('other requests are claimed, answered and released while the transaction of a request is open', {
    'claims wait for writes': waitingForWrites(),
  }),
]

/** One mutant or more per scenario. */
export const idempotencyMutants: readonly Mutant<OpenIdempotencyWorld>[] = [
  ...claimMutants,
  ...answerMutants,
  ...ownershipMutants,
  ...writeMutants,
  ...contentionMutants,
]

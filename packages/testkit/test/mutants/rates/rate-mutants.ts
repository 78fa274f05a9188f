import type { RateGrant, RateLimiter, RateRequest } from '@ackord/core'
import { type OpenRateWorld, openMemoryRateWorld, type RateWorld } from '../../../src/suites/rates/rate-world.ts'
import { type Mutant, mutantsOf } from '../../support/mutant.ts'

type Take = RateLimiter['take']
type Decorate = (real: Take) => Take

/** A world whose limiter is decorated. */
function decorated(decorate: Decorate): OpenRateWorld {
  return async () => {
    const world = await openMemoryRateWorld()
    const limiter: RateLimiter = { take: decorate(world.limiter.take) }
    return { ...world, limiter, another: async () => limiter }
  }
}

/** Changes requests before they reach the limiter. */
const asking = (change: (request: RateRequest) => RateRequest): OpenRateWorld =>
  decorated((take) => (requests, options) => take(requests.map(change), options))

/** Changes grants before they reach the caller. */
const answering = (change: (grant: RateGrant, request: RateRequest) => RateGrant): OpenRateWorld =>
  decorated(
    (take) => async (requests, options) =>
      (await take(requests, options)).map((grant, index) => change(grant, requests[index] as RateRequest)),
  )

/** A limiter that forgets that requests of other processes were granted. */
const apart: OpenRateWorld = async () => {
  const world = await openMemoryRateWorld()
  return { ...world, another: async () => (await openMemoryRateWorld()).limiter }
}

/** Reads a bucket, waits, and writes it, like a limiter without a lock. */
function racing(): OpenRateWorld {
  return decorated((take) => {
    let left = 100
    return async (requests) => {
      await take([], { signal: new AbortController().signal })
      const [{ wanted } = { wanted: 0 }] = requests
      const found = left
      await Promise.resolve()
      const granted = Math.min(found, wanted)
      left = found - granted
      return [{ granted, retryAfter: granted === wanted ? 0 : 1 }]
    }
  })
}

/** Fails like a database that has found a deadlock, if calls with opposite orders overlap. */
const deadlocking: OpenRateWorld = decorated((take) => {
  const running = new Set<string>()
  return async (requests, options) => {
    const [first, last] = [requests[0]?.key ?? '', requests.at(-1)?.key ?? '']
    if (running.has(`${last} ${first}`)) throw new Error('deadlock detected')
    const order = `${first} ${last}`
    running.add(order)
    await Promise.resolve()
    running.delete(order)
    return await take(requests, options)
  }
})

function frozen(elapse: (world: RateWorld, duration: number) => Promise<void>): OpenRateWorld {
  return async () => {
    const world = await openMemoryRateWorld()
    return { ...world, elapse: (duration) => elapse(world, duration) }
  }
}

const same = (open: OpenRateWorld) => open

export const rateMutants: readonly Mutant<OpenRateWorld>[] = [
  ...mutantsOf(
    'a new key has its burst, and no more',
    {
      'every request is granted': answering((_, { wanted }) => ({ granted: wanted, retryAfter: 0 })),
      'a new bucket is empty': asking((request) => ({ ...request, burst: 1 })),
      'one permit too many': asking((request) => ({ ...request, burst: request.burst + 1 })),
      'all or nothing': answering(({ granted }, { wanted }) =>
        granted < wanted ? { granted: 0, retryAfter: 1 } : { granted, retryAfter: 0 },
      ),
    },
    same,
  ),
  ...mutantsOf(
    'the burst does not depend on the limit',
    { 'the burst is the limit': asking((request) => ({ ...request, burst: request.limit })) },
    same,
  ),
  ...mutantsOf(
    'tells when there is another permit',
    {
      'the wait is for all that were wanted': answering((grant, { wanted }) => ({ ...grant, retryAfter: grant.retryAfter * wanted })),
      'seconds instead of milliseconds': answering((grant) => ({ ...grant, retryAfter: Math.ceil(grant.retryAfter / 1000) })),
    },
    same,
  ),
  ...mutantsOf(
    'permits are added at the rate of the key',
    {
      'time stands still': frozen(async () => {}),
      'ten times too fast': asking((request) => ({ ...request, limit: request.limit * 10 })),
    },
    same,
  ),
  ...mutantsOf(
    'fractions of permits add up',
    {
      'whole permits only, at each call': frozen(async (world, duration) => await world.elapse(duration < 50 ? 0 : duration)),
    },
    same,
  ),
  ...mutantsOf(
    'an unused key collects no more than its burst',
    { 'the bucket has no bottom': asking((request) => ({ ...request, burst: request.limit > 10 ? request.burst : request.burst * 10 })) },
    same,
  ),
  ...mutantsOf(
    'high rates are exact enough',
    { 'a clock in steps of 20 ms': frozen(async (world, duration) => await world.elapse(duration === 30 ? 5 : duration)) },
    same,
  ),
  ...mutantsOf(
    'returned permits are granted again, within the burst',
    {
      'they are lost': asking((request) => ({ ...request, returned: 0 })),
      'they count only with a wish': asking((request) => ({ ...request, returned: request.wanted === 0 ? 0 : request.returned })),
      'beyond the burst': answering((grant, { wanted, returned }) => (returned > 100 ? { granted: wanted, retryAfter: 0 } : grant)),
    },
    same,
  ),
  ...mutantsOf(
    'a request that wants nothing takes nothing',
    {
      'it takes one': decorated((take) => async (requests, options) => {
        const grants = await take(
          requests.map((request) => ({ ...request, wanted: Math.max(1, request.wanted) })),
          options,
        )
        return grants.map((grant, index) => (requests[index]?.wanted === 0 ? { granted: 0, retryAfter: 0 } : grant))
      }),
    },
    same,
  ),
  ...mutantsOf(
    'keys have buckets of their own, and grants are in the order of the requests',
    {
      'one bucket': decorated((take) => async (requests, options) => {
        const grants: RateGrant[] = []
        for (const request of requests) grants.push(...(await take([{ ...request, key: 'one' }], options)))
        return grants
      }),
      'grants in the order of the keys': decorated((take) => async (requests, options) => {
        const grants = await take(requests, options)
        return grants.toReversed().map(({ granted }, index) => {
          const { wanted = 0 } = requests[index] ?? {}
          return { granted: Math.min(wanted, granted), retryAfter: granted >= wanted ? 0 : 1 }
        })
      }),
    },
    same,
  ),
  ...mutantsOf(
    'odd and similar keys are different keys',
    {
      'the case is ignored': inDistinctCalls((key) => key.toLowerCase()),
      'spaces are trimmed': inDistinctCalls((key) => key.trim()),
      normalised: inDistinctCalls((key) => key.normalize()),
      'cut off': inDistinctCalls((key) => key.slice(0, 1000)),
      'NUL ends it': inDistinctCalls((key) => key.replace(/\0.*/s, '')),
    },
    same,
  ),
  ...mutantsOf(
    'one call serves many keys, or none',
    {
      'only the first hundred': decorated((take) => async (requests, options) => {
        const grants = await take(requests.slice(0, 100), options)
        return requests.map((_, index) => grants[index] ?? { granted: 0, retryAfter: 1 })
      }),
      'an empty call is an error': decorated((take) => async (requests, options) => {
        if (requests.length === 0) throw new Error('empty')
        return await take(requests, options)
      }),
    },
    same,
  ),
  ...mutantsOf(
    'the latest rate of a key applies',
    {
      'the first one stays': decorated((take) => {
        const first = new Map<string, RateRequest>()
        return (requests, options) => {
          for (const request of requests) if (!first.has(request.key)) first.set(request.key, request)
          return take(
            requests.map((request) => {
              const { limit, burst } = first.get(request.key) ?? request
              return { ...request, limit, burst }
            }),
            options,
          )
        }
      }),
    },
    same,
  ),
  ...mutantsOf('processes share the buckets', { 'each process has its own': apart }, same),
  ...mutantsOf('concurrent calls of several processes get no more than there is', { 'read, then written': racing() }, same),
  ...mutantsOf('concurrent calls for the same keys in other orders all end', { 'locked in the order of the call': deadlocking }, same),
  ...mutantsOf(
    'an invalid request is rejected, and takes nothing',
    {
      'it is ignored': decorated((take) => async (requests, options) => {
        const grants: RateGrant[] = []
        for (const request of requests) grants.push(...(await take([request], options).catch(() => [{ granted: 0, retryAfter: 1 }])))
        return grants
      }),
      'the others are granted': decorated((take) => async (requests, options) => {
        const grants: RateGrant[] = []
        for (const request of requests) grants.push(...(await take([request], options)))
        return grants
      }),
    },
    same,
  ),
]

/** Keys that become the same are taken one after the other, as a limiter would that does not know that they are the same. */
function inDistinctCalls(change: (key: string) => string): OpenRateWorld {
  return decorated((take) => async (requests, options) => {
    const grants: RateGrant[] = []
    for (const request of requests) grants.push(...(await take([{ ...request, key: change(request.key) }], options)))
    return grants
  })
}

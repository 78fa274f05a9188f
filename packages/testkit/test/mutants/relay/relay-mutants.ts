import { randomUUID } from 'node:crypto'
import { type Metrics, type PublishResult, toError } from '@ackord/core'
import { type DrainOptions, type DrainResult, type OutboxStore, type Outcome, Relay } from '@ackord/outbox'
import { eventLoopTurn } from '../../../src/helpers/virtual-runtime.ts'
import type { RelayPorts } from '../../../src/suites/relay/relay-world.ts'
import type { Mutant } from '../../support/mutant.ts'
import {
  answering,
  brokenRelay,
  ClaimedMessages,
  type DecorateRelay,
  isPublisher,
  mapPublishers,
  type Publish,
  publishing,
  Running,
  withSetup,
  withStore,
} from './decorated-relay.ts'

const never = new Promise<never>(() => {})

const sendsTwice = publishing((publish) => async (...call) => {
  await publish(...call)
  return await publish(...call)
})

/** Records are settled as published when they are claimed. */
const settlesFirst = withStore((store) => ({
  async claim(options) {
    const claimed = await store.claim(options)
    await store.settle(claimed.map(({ id, token }) => ({ id, token, result: 'published' })))
    return claimed
  },
  renew: async (claims) => claims.map(() => true),
  settle: async (outcomes) => outcomes.map(() => 'applied'),
}))

/** One confirmed message of a call counts for all of them. */
const confirmsAll = answering((results) => (results.some(({ ok }) => ok) ? results.map(() => ({ ok: true })) : results))

/** The dead letter publishes through `change`. */
function sendingLetters(change: (publish: Publish) => Publish): DecorateRelay {
  return (_, setup) => ({ setup: withLetters(setup.deadLetter, change) })
}

function withLetters(deadLetter: DeadLetterOption, change: (publish: Publish) => Publish): { readonly deadLetter: DeadLetterOption } {
  if (deadLetter === undefined) return { deadLetter }
  return { deadLetter: { ...deadLetter, publisher: { publish: change(deadLetter.publisher.publish) } } }
}

type DeadLetterOption = Parameters<DecorateRelay>[1]['deadLetter']

/** These outcomes are settled only after the dead letter has answered, however long it takes. */
function settlingAfterLetters(waits: (outcome: Outcome) => boolean): DecorateRelay {
  return (store, setup) => {
    const letters = new Running()
    return {
      setup: withLetters(
        setup.deadLetter,
        (publish) =>
          (...call) =>
            letters.add(publish(...call)),
      ),
      store: {
        async settle(outcomes) {
          // The letters of the same batch are sent at the same time.
          await eventLoopTurn()
          if (outcomes.some(waits)) await letters.ended()
          return await store.settle(outcomes)
        },
      },
    }
  }
}

type Observe = Metrics['observe']

/** The metrics port receives other observations: `change` calls the original port. */
function observing(change: (observe: Observe, ...call: Parameters<Observe>) => void): DecorateRelay {
  return withSetup(({ metrics }) => {
    if (metrics === undefined) return {}
    return { metrics: { ...metrics, observe: (...call) => change(metrics.observe, ...call) } }
  })
}

/** Changes the outcomes before they are settled. */
function settling(change: (outcome: Outcome) => Outcome): (store: OutboxStore) => Pick<OutboxStore, 'settle'> {
  return (store) => ({ settle: (outcomes) => store.settle(outcomes.map(change)) })
}

/** The real relay with one defect each, and the scenario that must catch it. */
export const relayMutants: readonly Mutant<RelayPorts>[] = [
  ...brokenRelay('every committed record is published once, to its destination', {
    'every batch is sent twice': sendsTwice,
    'all records go to one destination': publishing((publish) => (_, messages, options) => publish('orders', messages, options)),
  }),
  ...brokenRelay('the delay of each record, from storing it until the broker confirms it, is observed in milliseconds, per destination', {
    'nothing is observed': withSetup(() => ({ metrics: undefined })),
    'the delay is in seconds': observing((observe, name, value, labels) => observe(name, value / 1000, labels)),
    'all destinations are observed as one': observing((observe, name, value) => observe(name, value, { destination: 'all' })),
    'the delay counts from the claim': withStore((store) => ({
      claim: async (options) => (await store.claim(options)).map((claimed) => ({ ...claimed, age: 0 })),
    })),
    'the delay ends with the claim': (store, setup) => {
      const claimed = new ClaimedMessages()
      const isDelay = (name: string) => name === 'ackord.outbox.delivery_delay'
      return {
        store: { claim: (options) => claimed.claim(store, options) },
        ...observing((observe, name, value, labels) => {
          const record = claimed.all.find(({ destination }) => destination === labels['destination'])
          observe(name, isDelay(name) ? (record?.age ?? value) : value, labels)
        })(store, setup),
      }
    },
    'every publish is observed': observing((observe, name, value, labels) =>
      observe(name === 'ackord.outbox.publish_duration' ? 'ackord.outbox.delivery_delay' : name, value, labels),
    ),
  }),
  ...brokenRelay('a relay that is killed while it publishes loses nothing', {
    'records are settled before they are published': settlesFirst,
  }),
  ...brokenRelay('a relay that is killed after publishing, before settling, leaves a duplicate with the same id and loses nothing', {
    'records are settled before they are published': settlesFirst,
  }),
  ...brokenRelay('a relay that is killed after settling leaves no duplicate', {
    'published records are not settled': withStore((store) => ({
      async settle(outcomes) {
        await store.settle(outcomes.filter(({ result }) => result !== 'published'))
        return outcomes.map(() => 'applied')
      },
    })),
  }),
  ...brokenRelay('a slow publish keeps its lease: no other relay sends the same records records', {
    'leases are not renewed': withStore(() => ({ renew: async (claims) => claims.map(() => true) })),
  }),
  ...brokenRelay('two relays that stall at random past their lease lose nothing, and duplicate no more than the leases they lost', {
    'every batch is sent twice': sendsTwice,
  }),
  ...brokenRelay('four relays that stall at random past their lease lose nothing, and duplicate no more than the leases they lost', {
    'records are settled before they are published': settlesFirst,
  }),
  ...brokenRelay('a stop ends within its time limit even if a publish hangs, and releases the records without an outcome', {
    'a stop waits for a publish': withSetup(() => ({ shutdownTimeout: Infinity })),
    'records without an outcome stay leased': withStore(() => ({ release: async () => {} })),
  }),
  ...brokenRelay('a stop ends even if publisher and store hang, and nothing is lost', {
    'a stop waits for the store': (store) => {
      const calls = new Running()
      return {
        store: {
          renew: (...call) => calls.add(store.renew(...call)),
          release: (...call) => calls.add(store.release(...call)),
          settle: (...call) => calls.add(store.settle(...call)),
        },
        lifecycle: (relay) => ({
          async stop() {
            await relay.stop()
            await calls.ended()
          },
        }),
      }
    },
  }),
  ...brokenRelay('a parked record has a copy in the dead letter, with its id, its bytes and the reason', {
    'nothing is sent to the dead letter': withSetup(() => ({ deadLetter: undefined })),
    'the copy has an id of its own': sendingLetters(
      (publish) => (destination, letters, options) =>
        publish(
          destination,
          letters.map((letter) => letter.withAttributes({ id: randomUUID() })),
          options,
        ),
    ),
  }),
  ...brokenRelay('a relay that is killed before the dead letter has the copy leaves the record to the next relay, which sends it', {
    'records are parked before the copy is sent': (store, setup) => {
      const claimed = new ClaimedMessages()
      return {
        store: { claim: (options) => claimed.claim(store, options) },
        setup: withLetters(setup.deadLetter, (publish) => async (destination, letters, options) => {
          await store.settle(claimed.of(letters).map(({ id, token }) => ({ id, token, result: 'parked', error: 'too large' })))
          return await publish(destination, letters, options)
        }),
      }
    },
  }),
  ...brokenRelay('a record is parked even if the dead letter rejects the copy, and its error says so', {
    'without a copy the record is retried': (store, setup) => {
      let failed = false
      return {
        setup: withLetters(setup.deadLetter, (publish) => async (...call) => {
          const results = await publish(...call)
          failed = results.some(({ ok }) => !ok)
          return results
        }),
        store: settling(({ id, token, ...outcome }) =>
          failed && outcome.result === 'parked'
            ? { id, token, result: 'failed', error: outcome.error, retryAfter: 5000 }
            : { id, token, ...outcome },
        )(store),
      }
    },
    'the error does not say that there is no copy': (store, setup) => {
      let reason = ''
      return {
        setup: {
          publisher: mapPublishers(setup, ({ publish }) => ({
            async publish(...call) {
              const results = await publish(...call)
              for (const result of results) if (!result.ok) reason = toError(result.error).message
              return results
            },
          })),
        },
        store: settling((outcome) => (outcome.result === 'parked' ? { ...outcome, error: reason } : outcome))(store),
      }
    },
  }),
  ...brokenRelay('a dead letter that never answers times out and delays no other record', {
    'a dead letter may take for ever': settlingAfterLetters(({ result }) => result === 'parked'),
    'everything waits for the dead letter': settlingAfterLetters(() => true),
  }),
  ...brokenRelay('with a publisher per destination each record goes to its own, and records without a publisher are left to other relays', {
    'one publisher gets everything': withSetup(({ publisher }) => {
      if (isPublisher(publisher)) return { publisher }
      const [first] = Object.values(publisher)
      if (first === undefined) return { publisher }
      return { publisher: Object.fromEntries(Object.keys(publisher).map((destination) => [destination, first])) }
    }),
    'records without a publisher are claimed and parked': withSetup(({ publisher }) => {
      if (isPublisher(publisher)) return { publisher }
      const refuse: Publish = async (_, messages) => messages.map(() => ({ ok: false, error: new Error('no publisher'), permanent: true }))
      return { publisher: { '*': { publish: refuse }, ...publisher } }
    }),
  }),
  ...brokenRelay('a record whose expirytime has passed is parked instead of published, and its error says so', {
    'expired records are published': withStore((store) => ({
      async claim(options) {
        const claimed = await store.claim(options)
        return claimed.map(({ message, ...one }) => ({ ...one, message: message.withAttributes({ expirytime: undefined }) }))
      },
    })),
    'expired records are dropped': (store, { runtime }) => {
      const claimed = new ClaimedMessages()
      const isExpired = (id: string) => (claimed.byRecord(id)?.message.expiryTime?.getTime() ?? Infinity) <= runtime.now()
      return {
        store: {
          claim: (options) => claimed.claim(store, options),
          ...settling(({ id, token, ...outcome }) => (isExpired(id) ? { id, token, result: 'published' } : { id, token, ...outcome }))(
            store,
          ),
        },
      }
    },
  }),
  ...brokenRelay('a graceful stop settles the records in flight and leaves none leased', {
    'stop does not wait': () => ({
      lifecycle: (relay) => ({
        async stop() {
          void relay.stop()
        },
      }),
    }),
  }),
  ...brokenRelay('stop may come before start, twice, and while idle; start twice is one run', {
    'a second start is a second run': (store, setup) => {
      const relays: Relay[] = []
      return {
        lifecycle: () => ({
          start: () => relays.push(new Relay(store, setup).start()),
          stop: async () => void (await Promise.all(relays.map((relay) => relay.stop()))),
        }),
      }
    },
    'stop before start waits for ever': () => {
      let started = false
      return {
        lifecycle: (relay) => ({
          start() {
            started = true
            relay.start()
          },
          stop: () => (started ? relay.stop() : never),
        }),
      }
    },
  }),
  ...brokenRelay('a record that can never be published is parked immediately, and the others are published', {
    'permanent failures are retried': answering((results) =>
      results.map((result) => (result.ok ? result : { ...result, permanent: false })),
    ),
    'one confirmed message counts for all': confirmsAll,
  }),
  ...brokenRelay('a record that keeps failing backs off, then is parked with its error', {
    'a record is retried for ever': withSetup(() => ({ maxAttempts: Infinity })),
    'a failed record is retried at once': withSetup(() => ({ backoff: () => 0 })),
  }),
  ...brokenRelay('exactly the confirmed records of a batch are settled as published', {
    'one confirmed message counts for all': confirmsAll,
  }),
  ...brokenRelay('a broker that is down is retried less and less often, and no record loses an attempt', {
    'an outage costs attempts': answering((results) =>
      results.map((result) => (result.ok ? result : { ok: false, error: result.error, permanent: result.permanent })),
    ),
    'the pause does not grow': withSetup(() => ({ destinationBackoff: () => 500 })),
    'every failure is logged': publishing((publish, { logger }) => async (...call) => {
      const results = await publish(...call)
      if (results.some(({ ok }) => !ok)) logger.warn({}, 'A publish failed.')
      return results
    }),
  }),
  ...brokenRelay('a destination that is down does not delay the others', {
    'a pause of one destination is a pause of all': (store, setup) => {
      let pausedUntil = 0
      return {
        setup: {
          publisher: mapPublishers(setup, ({ publish }) => ({
            async publish(...call) {
              const results = await publish(...call)
              if (results.some(isOutage)) pausedUntil = setup.runtime.now() + 600_000
              return results
            },
          })),
        },
        store: { claim: async (options) => (setup.runtime.now() < pausedUntil ? [] : await store.claim(options)) },
      }
    },
  }),
  ...['answers', 'breaks the connection'].flatMap((how) =>
    brokenRelay(`a record for which its destination ${how} as if it were down loses attempts and is parked, and the others are published`, {
      'its failures count as those of the destination': (store, setup) => {
        const claimed = new ClaimedMessages()
        const suspects = new Set<string>()
        return {
          setup: {
            publisher: mapPublishers(setup, ({ publish }) => ({
              async publish(destination, messages, options) {
                const suspect = (index: number) => suspects.add(messages[index]?.id ?? '')
                try {
                  const results = await publish(destination, messages, options)
                  for (const [index, result] of results.entries()) if (isOutage(result)) suspect(index)
                  return results
                } catch (error) {
                  for (const index of messages.keys()) suspect(index)
                  throw error
                }
              },
            })),
          },
          store: {
            claim: (options) => claimed.claim(store, options),
            async settle(outcomes) {
              const isSuspect = ({ id, result }: Outcome) => result !== 'published' && suspects.has(claimed.byRecord(id)?.message.id ?? '')
              await store.release(outcomes.filter(isSuspect))
              await store.settle(outcomes.filter((outcome) => !isSuspect(outcome)))
              return outcomes.map(() => 'applied')
            },
          },
        }
      },
    }),
  ),
  ...brokenRelay('a slow destination does not delay the others', {
    'the next claim waits for all destinations of a batch': (store, setup) => {
      const publishes = new Running()
      return {
        setup: { publisher: mapPublishers(setup, ({ publish }) => ({ publish: (...call) => publishes.add(publish(...call)) })) },
        store: {
          async claim(options) {
            await publishes.ended()
            return await store.claim(options)
          },
        },
      }
    },
  }),
  ...brokenRelay('a publisher that throws loses nothing', {
    'the relay ends at the first error': (store, setup) => {
      let ended = false
      return {
        setup: {
          publisher: mapPublishers(setup, ({ publish }) => ({
            publish: (...call) =>
              publish(...call).catch((error) => {
                ended = true
                throw error
              }),
          })),
        },
        store: { claim: (options) => (ended ? never : store.claim(options)) },
      }
    },
  }),
  ...brokenRelay('a relay publishes nothing to a destination that an operator has paused, and continues when it is resumed', {
    'pauses are not read': withStore(() => ({ notes: undefined })),
    'pauses are read once': withStore(({ notes }) => {
      const first = notes?.read('pause', { limit: 10 })
      return { notes: notes && { ...notes, read: async () => (await first) ?? [] } }
    }),
  }),
  ...brokenRelay('a relay is listed while it runs, with its state, and reports what it has published once a minute', {
    'nothing is reported': withStore(() => ({ notes: undefined })),
    'a relay that stops is still listed': withStore(({ notes }) => ({ notes: notes && { ...notes, delete: async () => true } })),
    'no rates are reported': withStore(({ notes }) => ({
      notes: notes && { ...notes, put: async (kind, some, keep) => (kind === 'rate' ? undefined : await notes.put(kind, some, keep)) },
    })),
  }),
  ...brokenRelay('a drain publishes all that can be claimed, and hands everything over', {
    'one batch is published': draining((relay) => relay.drain({ limit: 20 })),
    'published records stay': withStore(() => ({ settle: async (outcomes) => outcomes.map(() => 'applied') })),
  }),
  ...brokenRelay('a drain with a limit gives an outcome to no more records, and leaves the others as they were', {
    'the limit is ignored': draining((relay, { limit: _, ...options }) => relay.drain(options)),
    'records above the limit are not claimed': draining((relay, { limit, ...options }) =>
      relay.drain(limit === undefined ? { limit: 1 } : { ...options, limit }),
    ),
  }),
  ...brokenRelay('a drain ends before its deadline even if a publish hangs, and releases the records without an outcome', {
    'the deadline is ignored': draining((relay, { deadline: _, ...options }) => relay.drain(options)),
    'records without an outcome stay leased': withStore(() => ({ release: async () => {} })),
  }),
  ...brokenRelay('a drain that is aborted settles what is in flight and claims no more', {
    'the signal is ignored': draining((relay, { signal: _, ...options }) => relay.drain(options)),
    'outcomes are not settled': withStore(() => ({ settle: async (outcomes) => outcomes.map(() => 'lost') })),
  }),
  ...brokenRelay('a drain ends when a destination stays down, and its records keep their attempts', {
    'the destination is never given up': withSetup(() => ({ destinationBackoff: () => 86_400_000 })),
    'a failure of the destination counts for its records': answering((results) =>
      results.map((result) => (isOutage(result) && !result.ok ? { ok: false, error: result.error } : result)),
    ),
  }),
  ...brokenRelay('one record that makes its destination fail does not keep drains from publishing the others', {
    'a drain ends at the first failure': (store) => {
      let failed = false
      return {
        store: {
          release: async (claims) => {
            failed = true
            await store.release(claims)
          },
          claim: async (options) => (failed ? [] : await store.claim(options)),
        },
      }
    },
  }),
  ...brokenRelay('a relay that is killed while it drains loses nothing', {
    'records are settled before they are published': settlesFirst,
  }),
  ...brokenRelay('a record that fails in a drain is left to a later one, with its attempt counted', {
    'a failure is an outage': answering((results) =>
      results.map((result) => (result.ok ? result : { ok: false, error: result.error, scope: 'destination' })),
    ),
    'one confirmed message counts for all': confirmsAll,
  }),
  ...brokenRelay('a publish that never answers times out, has its signal aborted, and is retried', {
    'a publish may take for ever': withSetup(() => ({ publishTimeout: 1_000_000_000, lease: 2_000_000_000 })),
  }),
]

/** The drains of the relay have other options. */
function draining(drain: (relay: Relay, options: DrainOptions) => Promise<DrainResult>): DecorateRelay {
  return () => ({ lifecycle: (relay) => ({ drain: (options = {}) => drain(relay, options) }) })
}

function isOutage(result: PublishResult): boolean {
  return !result.ok && result.scope === 'destination'
}

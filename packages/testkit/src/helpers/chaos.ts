import { createHash } from 'node:crypto'
import {
  AckordError,
  beginAttempt,
  type Context,
  compose,
  enter,
  type Message,
  type Middleware,
  middleware,
  type Runtime,
  sleep,
  systemRuntime,
} from '@ackord/core'
import { checkCount, checkDuration, checkFraction, describeMessage, rejectUnknownOptions } from '@ackord/core/internal'

export interface ChaosMiddlewareOptions {
  /** Decides what happens to which message. The same seed has the same effect on the same delivery of a message, whatever else runs concurrently. */
  readonly seed: number
  /** The share of deliveries that fail before they are handled, from 0 to 1. Default: 0.1. */
  readonly failBefore?: number | undefined
  /** The share that fail after they were handled. Around a transaction this is after its commit, which is the harder test. Default: 0.1. */
  readonly failAfter?: number | undefined
  /** The share that are handled twice, one after the other. Default: 0.1. */
  readonly duplicate?: number | undefined
  /** The share that wait before they are handled. Default: 0.1. */
  readonly delay?: number | undefined
  /** The longest delay in milliseconds. Default: 10. */
  readonly maxDelay?: number | undefined
  /** For the delays. Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** The number of disturbances so far. A test without any proves nothing. */
export interface ChaosCounts {
  readonly failedBefore: number
  readonly failedAfter: number
  readonly duplicated: number
  readonly delayed: number
}

export interface Chaos {
  /** For `router.use()`, before everything else. */
  readonly middleware: Middleware
  readonly counts: ChaosCounts
}

/** Disturbs the handling of messages as brokers, networks and crashes do, reproducibly for the same seed. */
export function createChaos(options: ChaosMiddlewareOptions): Chaos {
  const {
    seed,
    failBefore = 0.1,
    failAfter = 0.1,
    duplicate = 0.1,
    delay = 0.1,
    maxDelay = 10,
    runtime = systemRuntime,
    ...unknown
  } = options
  rejectUnknownOptions('createChaos()', unknown)
  checkCount('seed', seed, { min: 0 })
  for (const [name, share] of Object.entries({ failBefore, failAfter, duplicate, delay })) checkFraction(name, share)
  checkDuration('maxDelay', maxDelay)
  const counts = { failedBefore: 0, failedAfter: 0, duplicated: 0, delayed: 0 }
  const deliveries = new Map<string, number>()

  /** Derived from the message, not from a sequence: with concurrent messages, it would be random which message gets which number. */
  function isMet(kind: keyof ChaosCounts, share: number, message: Message): boolean {
    const digest = createHash('sha256').update(JSON.stringify([seed, kind, message.source, message.id, deliveries.get(keyOf(message))]))
    const met = digest.digest().readUInt32BE(0) / 2 ** 32 < share
    if (met) counts[kind] += 1
    return met
  }

  function sometimes(kind: keyof ChaosCounts, share: number, disturbing: Middleware): Middleware {
    return middleware({ role: disturbing.role }, (next) => {
      const disturbed = disturbing(next)
      return async function chaos(message, context) {
        return await (isMet(kind, share, message) ? disturbed(message, context) : next(message, context))
      }
    })
  }

  const counting: Middleware = (next) =>
    async function countDelivery(message, context) {
      const key = keyOf(message)
      deliveries.set(key, (deliveries.get(key) ?? 0) + 1)
      return await next(message, context)
    }

  return {
    counts,
    middleware: compose(
      counting,
      sometimes('delayed', delay, delaying(maxDelay, runtime)),
      sometimes('failedBefore', failBefore, failing('before')),
      sometimes('failedAfter', failAfter, failing('after')),
      sometimes('duplicated', duplicate, handlingTwice),
    ),
  }
}

function keyOf({ source, id }: Message): string {
  return JSON.stringify([source, id])
}

/** Handles a message twice, one after the other, as a broker may deliver it. Both must succeed; the outputs are those of the second. */
const handlingTwice: Middleware = middleware({ role: 'retry' }, (next) => {
  async function once(message: Message, context: Context): Promise<readonly Message[]> {
    const attempt = beginAttempt(context)
    return await enter(attempt, () => next(message, attempt))
  }
  return async function duplicate(message, context) {
    await once(message, context)
    return await once(message, context)
  }
})

function failing(moment: 'before' | 'after'): Middleware {
  return (next) =>
    async function fail(message, context) {
      if (moment === 'after') await next(message, context)
      throw new AckordError('ACKORD_CHAOS', `createChaos() made this delivery fail, ${moment} the handling of ${describeMessage(message)}.`)
    }
}

/** `max` is in milliseconds. */
function delaying(max: number, runtime: Runtime): Middleware {
  return (next) =>
    async function delay(message, context) {
      await sleep(runtime, runtime.random() * max, { signal: context.signal })
      return await next(message, context)
    }
}

import { AckordError } from '../errors.ts'
import { beginAttempt, type Context, enter } from '../message/context.ts'
import { nameOf } from '../message/marshal.ts'
import type { Message } from '../message/message.ts'
import { checkChoice, checkDuration, checkFraction } from '../options.ts'
import { type Runtime, sleep, systemRuntime } from '../ports/runtime.ts'
import { type Middleware, middleware } from './middleware.ts'

export interface ChaosOptions {
  /** The share of messages that are affected, from 0 to 1. Default: 0.1. */
  readonly probability?: number | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

export interface RandomFailureOptions extends ChaosOptions {
  /** Whether the failure happens before the message is handled, after it, or randomly either. Default: 'either'. */
  readonly when?: 'before' | 'after' | 'either' | undefined
}

export interface RandomDelayOptions extends ChaosOptions {
  /** The longest delay in milliseconds. Default: 1,000. */
  readonly max?: number | undefined
}

/** For tests of idempotence: handles some messages twice, one after the other, as a broker may. Both must succeed; the outputs are those of the second. */
export function duplicateMiddleware(options: ChaosOptions = {}): Middleware {
  const { happens } = chance(options)

  return middleware({ role: 'retry' }, (next) => {
    async function once(message: Message, context: Context): Promise<readonly Message[]> {
      const attempt = beginAttempt(context)
      return await enter(attempt, () => next(message, attempt))
    }

    return async function duplicate(message, context) {
      if (!happens()) return await next(message, context)
      await once(message, context)
      return await once(message, context)
    }
  })
}

/** For tests: fails some messages with `ACKORD_CHAOS`. A failure after the handling is the harder test: its effects exist. */
export function randomFailureMiddleware(options: RandomFailureOptions = {}): Middleware {
  const { when = 'either' } = options
  const { runtime, happens } = chance(options)
  checkChoice('when', when, ['before', 'after', 'either'])

  return (next) =>
    async function randomFailure(message, context) {
      if (!happens()) return await next(message, context)

      const before = when === 'either' ? runtime.random() < 0.5 : when === 'before'
      if (!before) await next(message, context)
      const moment = before ? 'before' : 'after'
      throw new AckordError('ACKORD_CHAOS', `An intentional failure, ${moment} the handling of ${nameOf(message)}.`)
    }
}

/** For tests: delays some messages before they are handled. */
export function randomDelayMiddleware(options: RandomDelayOptions = {}): Middleware {
  const { max = 1000 } = options
  const { runtime, happens } = chance(options)
  checkDuration('max', max)

  return (next) =>
    async function randomDelay(message, context) {
      if (happens()) await sleep(runtime, runtime.random() * max, { signal: context.signal })
      return await next(message, context)
    }
}

function chance(options: ChaosOptions): { readonly runtime: Runtime; readonly happens: () => boolean } {
  const { probability = 0.1, runtime = systemRuntime } = options
  checkFraction('probability', probability)
  return { runtime, happens: () => runtime.random() < probability }
}

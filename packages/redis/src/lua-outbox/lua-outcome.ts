import { InvalidOptionError } from '@ackord/core'
import { checkDuration, checkFraction, checkNoMore } from '@ackord/core/internal'
import { type Claim, type Outcome, relayDefaults } from '@ackord/outbox'

/** What became of a claimed record. One that failed without `retryAfter` waits as the back-off of the store says, and is parked at its `maxAttempts`. */
export type LuaOutcome = Outcome | (Claim & { readonly result: 'failed'; readonly error: string; readonly retryAfter?: undefined })

export interface LuaBackoff {
  /** Milliseconds after the first failure. Default: 1,000. */
  readonly initial?: number | undefined
  /** What each further failure multiplies it by. Default: 2. */
  readonly factor?: number | undefined
  /** The most milliseconds, before the jitter. Default: 60,000. */
  readonly max?: number | undefined
  /** Which part of it is random, more or less. Default: 0.2. */
  readonly jitter?: number | undefined
}

export interface SettleRules {
  readonly retain: boolean
  readonly backoff: Required<{ [K in keyof LuaBackoff]: number }>
  readonly maxAttempts: number
  readonly redact: ((error: string) => string) | undefined
}

export function checkBackoff(options: LuaBackoff): SettleRules['backoff'] {
  const defaults = relayDefaults.backoff
  const { initial = defaults.initial, factor = defaults.factor, max = defaults.max, jitter = defaults.jitter, ...unknown } = options
  checkNoMore('backoff', unknown)
  checkDuration('backoff.initial', initial)
  checkDuration('backoff.max', max)
  checkFraction('backoff.jitter', jitter)
  if (!(factor >= 1 && Number.isFinite(factor)))
    throw new InvalidOptionError('backoff.factor', `must be a number, 1 or more; it is ${factor}.`)
  return { initial, factor, max, jitter }
}

/** As the script takes them. */
export function settleSettings({ retain, backoff, maxAttempts }: SettleRules, random: number, wantsAges: boolean): readonly string[] {
  const { initial, factor, max, jitter } = backoff
  return [retain ? '1' : '0', ...[initial, factor, max, jitter, random, maxAttempts].map(String), wantsAges ? '1' : '0']
}

/** A letter, and what it needs. */
export function wordsOf(outcome: LuaOutcome, { redact }: SettleRules): readonly string[] {
  if (outcome.result === 'published') return ['p']
  const error = shortened(redacted(outcome.error, redact))
  if (outcome.result === 'parked') return ['k', error]
  if (outcome.retryAfter === undefined) return ['f', '', error]
  checkDuration('retryAfter', outcome.retryAfter)
  return ['f', String(Math.ceil(outcome.retryAfter)), error]
}

/** What throws must not keep the outcome from being stored, nor let the text through. */
function redacted(error: string, redact: SettleRules['redact']): string {
  try {
    return redact === undefined ? error : String(redact(error))
  } catch {
    return 'What it failed with is not shown: redact() threw.'
  }
}

const mostCharacters = 10_000

/** Nobody reads more than this. A character that is two units is not cut in half. */
function shortened(error: string): string {
  if (error.length <= mostCharacters) return error
  const last = error.charCodeAt(mostCharacters - 1)
  return error.slice(0, last >= 0xd800 && last <= 0xdbff ? mostCharacters - 1 : mostCharacters)
}

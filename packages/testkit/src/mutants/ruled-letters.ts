import { toError } from '@ackord/core'
import type { ClaimedRecord, Outcome } from '@ackord/outbox'
import { limited, type RelaySetup } from '../suites/relay/relay-world.ts'
import type { RelayRules } from './relay-rules.ts'

export interface Fate {
  readonly record: ClaimedRecord
  readonly fate: Outcome | 'giveBack'
}

/** The dead letters of a ruled relay. */
export class RuledLetters {
  readonly #setup: RelaySetup
  readonly #rules: RelayRules
  readonly #settle: (fates: readonly Fate[]) => Promise<void>

  constructor(setup: RelaySetup, rules: RelayRules, settle: (fates: readonly Fate[]) => Promise<void>) {
    this.#setup = setup
    this.#rules = rules
    this.#settle = settle
  }

  isFor({ fate }: Fate): boolean {
    return this.#setup.deadLetter !== undefined && this.#rules.sendsLetters && fate !== 'giveBack' && fate.result === 'parked'
  }

  async park(fates: readonly Fate[]): Promise<void> {
    if (fates.length === 0) return
    if (!this.#rules.lettersFirst) await this.#settle(fates)
    const missing = await this.#send(fates)
    if (this.#rules.lettersFirst)
      await this.#settle(missing === undefined ? fates : fates.map((fate) => this.#withoutLetter(fate, missing)))
  }

  /** Why there is none. */
  async #send(fates: readonly Fate[]): Promise<string | undefined> {
    const { deadLetter, runtime, publishTimeout } = this.#setup
    if (deadLetter === undefined) return undefined
    const letters = fates.map(({ record: { message }, fate }) =>
      message.withAttributes({
        ...(this.#rules.lettersKeepId ? {} : { id: runtime.uuid() }),
        deadletterreason: fate !== 'giveBack' && fate.result === 'parked' ? fate.error : '',
      }),
    )
    try {
      const [result] = await limited(runtime, this.#rules.limitsLetter ? publishTimeout : undefined, undefined, (signal) =>
        deadLetter.publisher.publish(deadLetter.destination, letters, { signal }),
      )
      return result?.ok === false ? toError(result.error).message : undefined
    } catch (error) {
      return toError(error).message
    }
  }

  #withoutLetter({ record, fate }: Fate, missing: string): Fate {
    if (fate === 'giveBack' || fate.result !== 'parked') return { record, fate }
    const { id, token, error } = fate
    if (!this.#rules.parksWithoutLetter) return { record, fate: { id, token, result: 'failed', error, retryAfter: 5000 } }
    return { record, fate: this.#rules.tellsMissingLetter ? { ...fate, error: `${error} (no copy: ${missing})` } : fate }
  }
}

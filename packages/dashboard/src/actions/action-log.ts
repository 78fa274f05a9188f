import type { Logger } from '@ackord/core'
import type { EndedJob } from './jobs.ts'

/** An action of an operator that has ended. */
export interface OperatorAction {
  /** The name that `authorize` returned. */
  readonly by: string
  readonly action: 'rearm' | 'discard' | 'cancel' | 'park' | 'pause' | 'resume' | 'replay'
  /** The store; for `replay` the dead letters. */
  readonly store: string
  /** The target of the action, for people: the filter, a destination, or the first ids. */
  readonly what: string
  /** How many records were changed, also by an action that was stopped or has failed. */
  readonly count: number
  readonly reason: string
  readonly result: 'done' | 'stopped' | 'failed'
  /** Why it failed. */
  readonly error: string | undefined
}

export type OnAction = (action: OperatorAction) => void | Promise<void>

/** Logs each action, and calls `onAction`. */
export class ActionLog {
  readonly #logger: Logger
  readonly #onAction: OnAction | undefined

  constructor(logger: Logger, onAction: OnAction | undefined) {
    this.#logger = logger
    this.#onAction = onAction
  }

  ended(action: Omit<OperatorAction, 'count' | 'result' | 'error'>, { state: result, count, error }: EndedJob): void {
    const whole: OperatorAction = { ...action, count, result, error }
    if (result === 'failed') this.#logger.error(whole, 'An action of an operator has failed.')
    else this.#logger.info(whole, `An action of an operator was ${result}.`)
    void this.#notify(whole)
  }

  async #notify(action: OperatorAction): Promise<void> {
    try {
      await this.#onAction?.(action)
    } catch (error) {
      this.#logger.error({ err: error }, 'onAction() has failed.')
    }
  }
}

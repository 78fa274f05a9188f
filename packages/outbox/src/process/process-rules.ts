import type { EventDefinition, Message, StandardSchema } from '@ackord/core'
import type { ProcessStep, ProcessTimeout } from './process-step.ts'
import type { ProcessKey } from './process-store.ts'

/**
 * Reacts to a message: returns the new state, or nothing if it has changed the given state itself or left it as it was. May be run several times for one message,
 * because transactions are retried: what it does other than through `step` and its transaction must bear that. If it throws, the message was not handled, and nothing has
 * happened.
 */
export type ProcessStepFunction<State, Data> = (
  state: State,
  message: Message<Data>,
  step: ProcessStep,
) => State | undefined | void | Promise<State | undefined | void>

/** Determines to which instance a message belongs. */
export type Correlate<Data> = (message: Message<Data>) => string | undefined

/** An event and the step that reacts to it, created by `when()`. */
export interface ProcessReaction<State> {
  readonly event: string | Pick<EventDefinition, 'type' | 'schema'>
  /** Called only with messages of the event, whose data `when()` has tied to it. */
  readonly step: ProcessStepFunction<State, never>
  readonly correlate: Correlate<never> | undefined
}

/** An event that a process did not react to. */
export interface IgnoredEvent extends ProcessKey {
  readonly message: Message
  /**
   * - `finished`: the instance has completed.
   * - `missing`: there is no instance, and the event does not begin one.
   * - `timeout`: the timeout was cancelled or set again, or its instance is gone.
   */
  readonly reason: 'finished' | 'missing' | 'timeout'
}

/** The validated options of a process. */
export interface ProcessRules<State> {
  readonly name: string
  readonly state: () => State
  readonly startedBy: readonly ProcessReaction<State>[]
  readonly on: readonly ProcessReaction<State>[]
  readonly correlate: ((message: Message) => string | undefined) | undefined
  readonly timeouts: ReadonlyMap<string, ProcessStepFunction<State, ProcessTimeout>>
  readonly destination: string | undefined
  readonly source: string | undefined
  readonly onMissing: 'retry' | 'reject' | 'ignore'
  readonly keep: number
  readonly schema: StandardSchema<State> | undefined
  readonly version: number
  readonly migrate: ((state: unknown, version: number) => State) | undefined
  readonly onIgnored: ((ignored: IgnoredEvent) => void) | undefined
}

/** The type of the messages that a reaction is for. */
export function typeOf<State>({ event }: ProcessReaction<State>): string {
  return typeof event === 'string' ? event : event.type
}

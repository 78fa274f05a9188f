import { type EventDefinition, type Handler, InvalidOptionError, type Message, type StandardSchema } from '@ackord/core'
import {
  checkChoice,
  checkCount,
  checkDuration,
  checkFunction,
  checkName,
  checkSchema,
  describeValue,
  rejectUnknownOptions,
} from '@ackord/core/internal'
import { problemOfProcessId } from './process-checks.ts'
import { processHandlers } from './process-handlers.ts'
import {
  type Correlate,
  type IgnoredEvent,
  type ProcessReaction,
  type ProcessRules,
  type ProcessStepFunction,
  typeOf,
} from './process-rules.ts'
import { type ProcessTimeout, timeoutType } from './process-step.ts'
import type { ProcessStore } from './process-store.ts'

export interface ProcessOptions<State> {
  /** Identifies the process in its store, in the type of its timeouts (`<name>.timeout`) and in errors: under another name it finds none of its instances. */
  readonly name: string
  /** Creates the state of a new instance. A state must survive JSON. */
  readonly state: () => State
  /** The events that begin an instance if there is none. If there is one, they are events like others. */
  readonly startedBy: readonly ProcessReaction<State>[]
  /** The other events. Default: none. */
  readonly on?: readonly ProcessReaction<State>[] | undefined
  /** Determines the id of the instance, for reactions without a `correlate` of their own. Default: none, and all need one. */
  readonly correlate?: ((message: Message) => string | undefined) | undefined
  /** The steps that are called when a timeout is due, by the names of `step.timeout(name, delay)`. Require `destination`. Default: none. */
  readonly timeouts?: Readonly<Record<string, ProcessStepFunction<State, ProcessTimeout>>> | undefined
  /**
   * Where timeouts are published: the queue, stream or topic that the consumer of this process reads. Default: none.
   */
  readonly destination?: string | undefined
  /** The CloudEvents source of what the steps send, if it has none. Default: that of the router. */
  readonly source?: string | undefined
  /**
   * What happens to an event of an instance that does not exist, and that does not begin one:
   *
   * - `retry`: it has arrived before the event that begins the instance. It is redelivered with the router's growing delay, until the router's `maxDeliveries` sends it to the
   *   dead letter. Without that limit, an event whose instance never begins is redelivered for ever.
   * - `reject`: it goes to the dead letter at once.
   * - `ignore`: it is acked. An event that arrives before the one that begins the instance is lost.
   *
   * Default: `retry`.
   */
  readonly onMissing?: 'retry' | 'reject' | 'ignore' | undefined
  /**
   * Milliseconds for which a completed instance is remembered, so that late and repeated events are ignored and begin no new one. Longer than the brokers may
   * redeliver. Default: 7 days.
   */
  readonly keep?: number | undefined
  /** Any Standard Schema, for the stored state, after `migrate`. Default: a stored state is not validated. */
  readonly schema?: StandardSchema<State> | undefined
  /** The version of the state's form. Increment it when an older state has to be migrated. Default: 1. */
  readonly version?: number | undefined
  /** Converts a state that an older version has stored. Required if `version` is more than 1. */
  readonly migrate?: ((state: unknown, version: number) => State) | undefined
  /** Called with each event that is ignored, before it is acked. Must not throw. Default: none. */
  readonly onIgnored?: ((ignored: IgnoredEvent) => void) | undefined
}

/** A process, created by `defineProcess()`. */
export interface ProcessDefinition {
  readonly name: string
  /** The type of its timeouts. */
  readonly timeoutType: string
  /**
   * A handler for each of its events, and one for its timeouts: `router.handleAll(...orderProcess.handlers(store))`. They need the store's inbox, transaction and outbox around
   * them (`transactional()`), and the messages of an instance may be handled concurrently, and in any order.
   */
  handlers(store: ProcessStore): readonly Handler[]
}

/**
 * Ties a step to an event, and its data to the step. `correlate` determines to which instance an event belongs. Default: the `correlate` of the process.
 *
 *     when(paymentReceived, (state, { data }, step) => ({ ...state, paid: data.amount }), { correlate: ({ data }) => data.orderId })
 */
export function when<Data, State>(
  event: string | EventDefinition<Data>,
  step: ProcessStepFunction<State, Data>,
  options: { readonly correlate?: Correlate<Data> | undefined } = {},
): ProcessReaction<State> {
  const { correlate, ...unknown } = options
  rejectUnknownOptions('when()', unknown)
  if (typeof event === 'string') checkName('The event of when()', event)
  else if (typeof event?.type !== 'string') {
    throw new InvalidOptionError('The event of when()', `must be created by defineEvent(), or be a type; it is ${describeValue(event)}.`)
  }
  checkFunction('The step of when()', step)
  if (correlate !== undefined) checkFunction('correlate', correlate)
  return { event: event as ProcessReaction<State>['event'], step, correlate }
}

/**
 * A process manager (saga): reacts to the events of several services, keeps a state between them, sends commands, and waits with timeouts. It is a set of ordinary handlers:
 * its state commits together with the inbox record of the message and with what it sends. The state's type is a type argument:
 *
 *     export const orderProcess = defineProcess<Order>({ name: 'order', state: () => ({ paid: false }), startedBy: [when(orderPlaced, …)], on: [when(paymentReceived, …)] })
 */
export function defineProcess<State>(options: ProcessOptions<State>): ProcessDefinition {
  const { name, state, startedBy, on = [], correlate, timeouts = {}, destination, source, onMissing = 'retry', ...others } = options
  const { keep = 7 * 24 * 60 * 60 * 1000, schema, version = 1, migrate, onIgnored, ...unknown } = others
  rejectUnknownOptions('defineProcess()', unknown)
  const problem = problemOfProcessId(checkName('name', name))
  if (problem !== undefined) throw new InvalidOptionError('name', `${problem}.`)
  checkFunction('state', state)
  if (correlate !== undefined) checkFunction('correlate', correlate)
  if (source !== undefined) checkName('source', source)
  checkChoice('onMissing', onMissing, ['retry', 'reject', 'ignore'])
  checkDuration('keep', keep, { min: 1 })
  checkSchema(schema)
  checkCount('version', version)
  if (migrate !== undefined) checkFunction('migrate', migrate)
  else if (version > 1)
    throw new InvalidOptionError('migrate', `is required with version ${version}: it converts the states of older versions.`)
  if (onIgnored !== undefined) checkFunction('onIgnored', onIgnored)
  checkReactions('startedBy', startedBy, correlate)
  checkReactions('on', on, correlate)
  if (startedBy.length === 0) throw new InvalidOptionError('startedBy', 'must have an event: without one, no instance ever begins.')
  checkTypes(timeoutType(name), [...startedBy, ...on])
  checkTimeouts(timeouts, destination)

  const rules: ProcessRules<State> = {
    ...{ name, state, startedBy, on, correlate, destination, source, onMissing, keep, schema, version, migrate, onIgnored },
    timeouts: new Map(Object.entries(timeouts)),
  }
  return { name, timeoutType: timeoutType(name), handlers: (store) => processHandlers(rules, store) }
}

function checkReactions<State>(option: string, reactions: readonly ProcessReaction<State>[], correlate: unknown): void {
  if (!Array.isArray(reactions)) throw new InvalidOptionError(option, `must be an array of when(…); it is ${describeValue(reactions)}.`)
  for (const [index, reaction] of reactions.entries()) {
    if (typeof reaction?.step !== 'function') throw new InvalidOptionError(`${option}[${index}]`, 'must be created by when().')
    if (reaction.correlate === undefined && correlate === undefined) {
      throw new InvalidOptionError(
        `${option}[${index}]`,
        `has no correlate, and the process has none: nothing says which instance a message of '${typeOf(reaction)}' belongs to.`,
      )
    }
  }
}

function checkTypes<State>(timeouts: string, reactions: readonly ProcessReaction<State>[]): void {
  const seen = new Set([timeouts])
  for (const reaction of reactions) {
    const type = typeOf(reaction)
    if (!seen.has(type)) seen.add(type)
    else if (type === timeouts)
      throw new InvalidOptionError('name', `makes '${type}' the type of the timeouts, which is also the type of an event.`)
    else
      throw new InvalidOptionError(
        'startedBy and on',
        `have '${type}' twice. An event that begins an instance also reaches one that exists.`,
      )
  }
}

function checkTimeouts(timeouts: Readonly<Record<string, unknown>>, destination: string | undefined): void {
  for (const [name, step] of Object.entries(timeouts)) {
    checkName('The name of a timeout', name)
    checkFunction(`timeouts.${name}`, step)
  }
  if (destination !== undefined) checkName('destination', destination)
  else if (Object.keys(timeouts).length > 0) {
    throw new InvalidOptionError(
      'destination',
      'is required with timeouts: they are published there when they are due. Name what the consumer of the process reads.',
    )
  }
}

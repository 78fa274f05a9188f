import { AckordError, type Context, type EventDefinition, eventHandler, type Handler, type Message, messageKey } from '@ackord/core'
import { checkFunction, describeMessage, describeValue, outputIdsKey, probe } from '@ackord/core/internal'
import { describeProcess, problemOfProcessId } from './process-checks.ts'
import { type IgnoredEvent, type ProcessReaction, type ProcessRules, typeOf } from './process-rules.ts'
import { encodeState, readState } from './process-state.ts'
import { type ProcessTimeout, StepRecorder, timeoutType } from './process-step.ts'
import type { ProcessKey, ProcessStore, StoredProcess } from './process-store.ts'

const none: readonly Message[] = []

/** The handlers of a process: one per event, and one for its timeouts. */
export function processHandlers<State>(rules: ProcessRules<State>, store: ProcessStore): readonly Handler[] {
  checkFunction('store.load', store?.load)
  checkFunction('store.save', store.save)
  const { name, source, startedBy, on, timeouts } = rules
  const knownTimeouts = new Set(timeouts.keys())

  /** Runs a step on an instance that was loaded, or on a new one, and stores the result. Resolves to what the step sends. */
  async function runStep(
    key: ProcessKey,
    found: StoredProcess | undefined,
    call: (state: State, step: StepRecorder) => State | undefined | void | Promise<State | undefined | void>,
    { message, context, fired }: { readonly message: Message; readonly context: Context; readonly fired?: string | undefined },
  ): Promise<readonly Message[]> {
    const existing = found === undefined || found.phase === 'forgotten' ? undefined : found
    const version = (found?.version ?? 0) + 1
    const before = existing === undefined ? rules.state() : await readState(rules, key, existing)
    const timeouts = Object.fromEntries(Object.entries(existing?.timeouts ?? {}).filter(([timeout]) => timeout !== fired))
    const isNew = existing === undefined
    const step = new StepRecorder({ key, message, context, isNew, version, timeouts, knownTimeouts, destination: rules.destination })
    const returned = await call(before, step)
    step.end()
    const change = {
      version,
      begins: isNew,
      // A step that returns nothing may have changed the state that it was given.
      state: encodeState(key, returned === undefined ? before : returned),
      stateVersion: rules.version,
      timeouts: step.timeouts,
      keep: step.completed ? rules.keep : undefined,
    }
    await store.save(key, change, context)
    const paused = probe('process.saved')
    if (paused !== undefined) await paused
    return step.outputs
  }

  async function load(key: ProcessKey, message: Message, context: Context): Promise<StoredProcess | undefined> {
    // Without an inbox a redelivered message would be a second event.
    if (context.get(outputIdsKey) === undefined) throw withoutInbox(name, message)
    const found = await store.load(key, context)
    const paused = probe('process.loaded')
    if (paused !== undefined) await paused
    return found
  }

  function ignore(key: ProcessKey, message: Message, reason: IgnoredEvent['reason']): readonly Message[] {
    rules.onIgnored?.({ ...key, message, reason })
    return none
  }

  async function react(reaction: ProcessReaction<State>, begins: boolean, message: Message, context: Context): Promise<readonly Message[]> {
    const key = { process: name, id: idOf(rules, reaction, message) }
    const found = await load(key, message, context)
    if (found?.phase === 'finished') return ignore(key, message, 'finished')
    if (!begins && (found === undefined || found.phase === 'forgotten')) {
      if (rules.onMissing === 'ignore') return ignore(key, message, 'missing')
      throw notStarted(key, message, rules.onMissing === 'retry')
    }
    // when() has tied the step to messages of this type.
    return await runStep(key, found, (state, step) => reaction.step(state, message as Message<never>, step), { message, context })
  }

  async function fire(message: Message<unknown>, context: Context): Promise<readonly Message[]> {
    const timeout = readTimeout(message)
    const key = { process: name, id: timeout.id }
    const found = await load(key, message, context)
    const token = found?.phase === 'running' && Object.hasOwn(found.timeouts, timeout.timeout) ? found.timeouts[timeout.timeout] : undefined
    if (token === undefined || token !== timeout.token) return ignore(key, message, 'timeout')
    const step = timeouts.get(timeout.timeout)
    if (step === undefined) throw unknownTimeout(key, timeout.timeout)
    const call = (state: State, recorder: StepRecorder) => step(state, message.copy(timeout), recorder)
    return await runStep(key, found, call, { message, context, fired: timeout.timeout })
  }

  function handlerOf(
    event: ProcessReaction<State>['event'],
    work: (message: Message, context: Context) => Promise<readonly Message[]>,
  ): Handler {
    // The data of the definition is checked by its schema, if it has one.
    const type = event as string | EventDefinition
    return eventHandler({ type, source }, (data, context) => {
      const message = context.get(messageKey)
      if (message === undefined) throw withoutInbox(name, undefined)
      return work(message.data === data ? message : message.copy(data), context)
    })
  }

  return [
    ...startedBy.map((reaction) => handlerOf(reaction.event, (message, context) => react(reaction, true, message, context))),
    ...on.map((reaction) => handlerOf(reaction.event, (message, context) => react(reaction, false, message, context))),
    handlerOf(timeoutType(name), fire),
  ]
}

/** The instance that a message belongs to. That it names none is its own fault. */
function idOf<State>(rules: ProcessRules<State>, reaction: ProcessReaction<State>, message: Message): string {
  // Present in one of them: defineProcess() has checked it. A reaction's own is for messages of its type.
  const correlate = (reaction.correlate ?? rules.correlate) as (message: Message) => unknown
  const id = correlate(message)
  const problem = typeof id !== 'string' ? `is ${describeValue(id)}` : id === '' ? 'is empty' : problemOfProcessId(id)
  if (problem === undefined) return id as string
  throw new AckordError(
    'ACKORD_PROCESS_ID',
    `The process '${rules.name}' cannot tell which of its instances ${describeMessage(message)} belongs to: what correlate() returns for the type '${typeOf(reaction)}' ${problem}.`,
    { retryable: false },
  )
}

function readTimeout(message: Message): ProcessTimeout {
  const { id, timeout, token } = Object(message.data) as Partial<ProcessTimeout>
  const isTimeout = typeof id === 'string' && typeof timeout === 'string' && typeof token === 'string'
  if (isTimeout && id !== '' && problemOfProcessId(id) === undefined) return { id, timeout, token }
  throw new AckordError('ACKORD_WRONG_DATA', `The data of ${describeMessage(message)} is not that of a timeout.`, { retryable: false })
}

function notStarted(key: ProcessKey, message: Message, retryable: boolean): AckordError {
  const advice = retryable ? ' It is tried again, because the event that begins the process may arrive later.' : ''
  return new AckordError(
    'ACKORD_PROCESS_NOT_STARTED',
    `There is no instance of ${describeProcess(key)} for ${describeMessage(message)}.${advice}`,
    {
      retryable,
    },
  )
}

function unknownTimeout(key: ProcessKey, timeout: string): AckordError {
  return new AckordError(
    'ACKORD_PROCESS_STATE',
    `The timeout '${timeout}' of ${describeProcess(key)} is due, and its definition has no such timeout. Another release has set it: keep its step until no instance waits for it.`,
  )
}

function withoutInbox(name: string, message: Message | undefined): AckordError {
  const of = message === undefined ? '' : ` for ${describeMessage(message)}`
  return new AckordError(
    'ACKORD_MIDDLEWARE_ORDER',
    `The process '${name}' found no inbox around its handler${of}: a message that is delivered twice would be two events. Put transactional() around it.`,
  )
}

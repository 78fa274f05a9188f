import { setMaxListeners } from 'node:events'
import { AckordError, describeValue, isAckordError, toError } from '../errors.ts'
import { type BatchSettings, routerBatchesKey } from '../handler/batch.ts'
import type { Acking } from '../message/acking.ts'
import { type Context, type ContextKey, contextKey, enterWith, isBusy, rootContext } from '../message/context.ts'
import { refuseDelay } from '../message/delay.ts'
import { logFields } from '../message/log-fields.ts'
import { describeMessage } from '../message/marshal.ts'
import { ackingOf, isMessage, isSettled, type Message, type RawMessage } from '../message/message.ts'
import type { Process } from '../middleware/middleware.ts'
import { receivedMessageKey } from '../payload/payload-decoder.ts'
import { announce, channels } from '../ports/channels.ts'
import { probe } from '../ports/probe.ts'
import { messageOf } from '../ports/redact.ts'
import { forwardAcking } from './ack-strategy.ts'
import type { OutputCompleter } from './complete-outputs.ts'
import { FailurePolicy } from './failure-policy.ts'
import type { ErrorDecision, RouterSettings } from './router-options.ts'
import { isRefusal, type PauseOutcome, StorePause } from './store-pause.ts'

/** The steps of a run around the handling of a message. */
export interface RunPorts {
  /** Converts what the source yields to what handlers accept. Throws or rejects if it cannot be read. Returns a promise only for a message that passes codecs. */
  readonly decode: ((message: Message, signal: AbortSignal) => Message | Promise<Message>) | undefined
  /** Delivers the outputs; `undefined` means that they are already delivered. Rejects if they could not be. */
  readonly deliver: (outputs: readonly Message[], input: Message, signal: AbortSignal) => Promise<void> | undefined
  /** Abandons deliveries when the shutdown is forced; `deliver` then rejects. */
  readonly abandon: ((reason: AckordError) => void) | undefined
  /**
   * The signal and the deadline (milliseconds since the epoch) of a message that has its own; such a message never waits for a store that rejects writes, because its
   * caller waits. Default: those of the run.
   */
  readonly limitsOf?: ((received: Message) => MessageLimits | undefined) | undefined
}

export interface MessageLimits {
  readonly signal: AbortSignal
  readonly deadline: number | undefined
}

/** How a message left a pause, and when it had started to wait. */
interface Waited<O extends PauseOutcome> {
  readonly outcome: O
  readonly since: number
}

/** The processor that a handler runs in. */
export const processorKey: ContextKey<MessageProcessor> = contextKey('ackord.processor', { callScoped: true })

/** Processes one message, with acking as the outermost step: read, handle, deliver outputs, settle. */
export class MessageProcessor {
  readonly #settings: RouterSettings
  readonly #chain: Process
  readonly #complete: OutputCompleter
  readonly #ports: RunPorts
  readonly #policy: FailurePolicy
  readonly #forced = new AbortController()
  readonly #stopping = new AbortController()
  readonly #root: Context
  readonly #pause: StorePause
  // Handled, and settled later: by the reader of the outputs, or by a handler that acks in its own time.
  readonly #unsettled = new Set<Acking>()
  handled = 0
  failed = 0
  lastError: Error | undefined

  constructor(
    settings: RouterSettings,
    chain: Process,
    complete: OutputCompleter,
    ports: RunPorts,
    batches: ReadonlyMap<string, BatchSettings>,
  ) {
    this.#settings = settings
    this.#chain = chain
    this.#complete = complete
    this.#ports = ports
    this.#policy = new FailurePolicy(settings, this.#forced.signal)
    this.#pause = new StorePause(settings)
    // Every message may listen to it. Avoids Node's MaxListenersExceededWarning.
    setMaxListeners(0, this.#forced.signal)
    setMaxListeners(0, this.#stopping.signal)
    const root = rootContext({ signal: this.#forced.signal, ambient: settings.ambient }).with(processorKey, this)
    this.#root = batches.size === 0 ? root : root.with(routerBatchesKey, { handlers: batches, stopping: this.#stopping.signal, root })
  }

  /** Aborts the signals of all messages being handled. */
  force(reason: AckordError): void {
    this.#forced.abort(reason)
    this.#ports.abandon?.(reason)
  }

  /** Whether messages wait because their store rejects writes. */
  get paused(): boolean {
    return this.#pause.paused
  }

  /** The router stops: messages that wait for their store are nacked, and batches no longer wait for more messages. */
  stop(): void {
    this.#pause.stop()
    this.#stopping.abort()
  }

  /** Resolves when the broker has answered the verdicts in flight. */
  async answered(): Promise<void> {
    const busy = [...this.#unsettled].filter((acking) => acking.busy)
    await Promise.all(busy.map((acking) => acking.settled))
    const { ackStrategy, logger } = this.#settings
    if (ackStrategy !== 'manual' || this.#unsettled.size === 0) return
    logger.warn({ messages: this.#unsettled.size }, 'The router has ended with messages that their handlers have not settled.')
  }

  /**
   * Handles and settles one message; `done` is called in the end, with any result. Written with `then`, and with promises only where something waits:
   * each one saved here is a tenth of the router's cost when Node tracks promises for the ambient context.
   */
  handle(received: Message, done: () => void): void {
    if (this.#pause.paused) {
      const since = this.#settings.runtime.monotonic()
      this.#pause.wait((outcome) => this.#resume(received, { outcome, since }, done))
      return
    }
    const paused = probe('message.received')
    if (paused === undefined) this.#handle(received, done)
    else paused.then(() => this.#handle(received, done)).catch(done)
  }

  /** A message that waited for its store is tried, or nacked. */
  #resume(received: Message, { outcome, since }: Waited<PauseOutcome>, done: () => void): void {
    if (outcome !== 'stop') {
      this.#handle(received, done, { outcome, since })
      return
    }
    const failed = (failure: unknown) => this.#verdictFailed(received, failure)
    received.nack(stoppedInPause(received)).catch(failed).then(done, done)
  }

  /** `waited`: how the message left a pause, if it waited in one. */
  #handle(received: Message, done: () => void, waited?: Waited<'probe' | 'go'>): void {
    const limits = this.#ports.limitsOf?.(received)
    const root = limits === undefined ? this.#root : this.#rootWith(limits)
    let decoded: Message | Promise<Message>
    try {
      this.#policy.checkDeliveries(received)
      const { decode } = this.#ports
      decoded = decode === undefined ? received : decode(received, root.signal)
    } catch (error) {
      this.#failEarly(received, error, done, waited)
      return
    }
    if (decoded instanceof Promise) {
      // Only a message that passes codecs, and those are bytes.
      const withReceived = root.with(receivedMessageKey, received as RawMessage)
      const handle = (message: Message) => this.#handleDecoded(received, message, withReceived, done, waited)
      decoded.then(handle, (error: unknown) => this.#failEarly(received, error, done, waited))
    } else this.#handleDecoded(received, decoded, root, done, waited)
  }

  #rootWith({ signal, deadline }: MessageLimits): Context {
    return rootContext({ signal, deadline, ambient: this.#settings.ambient }).with(processorKey, this)
  }

  #failEarly(received: Message, error: unknown, done: () => void, waited: Waited<'probe' | 'go'> | undefined): void {
    if (waited?.outcome === 'probe') this.#pause.tried('unknown')
    this.fail(received, error).then(done, done)
  }

  #handleDecoded(received: Message, message: Message, root: Context, done: () => void, waited: Waited<'probe' | 'go'> | undefined): void {
    const probing = waited?.outcome === 'probe'
    const mayWait = this.#ports.limitsOf === undefined
    let context: Context
    let outputs: Promise<readonly Message[]>
    try {
      context = message.context(root)
      outputs = this.#process(message, context)
    } catch (error) {
      this.#failEarly(message, error, done, waited)
      return
    }
    const fail = (error: unknown) => {
      // A message that is refused again, although the store had accepted another, does not wait twice: the fault may be its own.
      const isKept =
        mayWait && waited?.outcome !== 'go' && isRefusal(error) && !isSettled(message) && this.#pause.mayWait(message, waited?.since)
      if (isKept) {
        const since = waited?.since ?? this.#settings.runtime.monotonic()
        this.#dropHolds(message, error)
        this.#pause.refused(error, (outcome) => this.#resume(received, { outcome, since }, done))
      } else void this.fail(message, error).then(done, done)
      if (probing) this.#pause.tried(isKept ? 'refused' : 'unknown')
    }
    const finish = (produced: readonly Message[]) => {
      if (isBusy(context)) {
        fail(notAwaited(message))
        return
      }
      if (probing) this.#pause.tried('accepted')
      let finishing: Promise<void> | undefined
      try {
        finishing = this.#finish(message, produced, root.signal)
      } catch (error) {
        fail(error)
        return
      }
      if (finishing === undefined) done()
      else finishing.then(done, done)
    }
    outputs.then(finish, fail)
  }

  #finish(message: Message, outputs: readonly Message[], signal: AbortSignal): Promise<void> | undefined {
    this.#dropHolds(message, undefined)
    if (Array.isArray(outputs) && outputs.length === 0) return this.#succeed(message, false)
    // It will be handled again, and then produces these outputs again.
    if (isRefused(message)) return this.#nackOutputs(outputs, message, message.error).then(() => this.#succeed(message, false))
    let prepared = outputs
    let delivered: Promise<void> | undefined
    try {
      prepared = this.#prepare(message, outputs)
      delivered = this.#ports.deliver(prepared, message, signal)
    } catch (error) {
      return this.#failDelivery(message, prepared, error)
    }
    if (delivered === undefined) return this.#succeed(message, true)
    return delivered.then(
      () => this.#succeed(message, true),
      (error: unknown) => this.#failDelivery(message, prepared, error),
    )
  }

  #process(message: Message, context: Context): Promise<readonly Message[]> {
    const outputs = enterWith(context, this.#chain, message)
    // Middleware written in JavaScript may not be async.
    return outputs instanceof Promise ? outputs : Promise.resolve(outputs)
  }

  #prepare(message: Message, outputs: readonly Message[]): readonly Message[] {
    if (!Array.isArray(outputs)) throw outputsLost(message, outputs)
    // Middleware may have added some after the handler's were completed.
    const complete = this.#complete(outputs, message, this.#root)
    for (const output of complete) refuseDelay(output, message)
    return this.#settings.ackStrategy === 'forward' ? forwardAcking(message, complete) : complete
  }

  async #failDelivery(message: Message, outputs: readonly Message[], error: unknown): Promise<void> {
    await this.fail(message, error)
    await this.#nackOutputs(outputs, message, error)
  }

  /** Outputs with an acking of their own, such as another message that is passed on, are settled like their input: nothing else will settle them. */
  async #nackOutputs(outputs: readonly Message[], input: Message, error: unknown): Promise<void> {
    if (!Array.isArray(outputs)) return
    for (const output of outputs) {
      const acking = isMessage(output) ? ackingOf(output) : undefined
      if (acking === undefined || acking === ackingOf(input) || acking.state !== 'pending') continue
      try {
        await acking.nack(error, undefined)
      } catch (failure) {
        this.#verdictFailed(output, failure)
      }
    }
  }

  /** Acks where the router is responsible for it. Returns a promise only where there is something to wait for: this is the innermost loop. */
  #succeed(message: Message, delivered: boolean): Promise<void> | undefined {
    this.handled += 1
    announce(channels.handled, () => ({ message }))
    const acking = ackingOf(message)
    if (acking === undefined) return undefined
    const paused = probe('message.beforeAck')
    return paused === undefined
      ? this.#acknowledge(message, acking, delivered)
      : paused.then(() => this.#acknowledge(message, acking, delivered))
  }

  #acknowledge(message: Message, acking: Acking, delivered: boolean): Promise<void> | undefined {
    const { ackStrategy, orderingKey } = this.#settings
    // Not awaited as such: `failure` has the error, also when the handler acked.
    if (ackStrategy === 'onSuccess' || (ackStrategy === 'forward' && !delivered)) void acking.ack()
    if (acking.busy) return acking.answered.then(() => this.#report(message, acking))
    if (acking.state !== 'pending') return this.#report(message, acking)
    // Unsettled outputs keep a forwarding message pending; the next message of its key must not overtake it.
    if (ackStrategy === 'forward' && orderingKey !== undefined) return this.#untilSettled(acking).then(() => this.#report(message, acking))
    this.#unsettled.add(acking)
    void acking.settled.then(() => {
      this.#unsettled.delete(acking)
      return this.#report(message, acking)
    })
    return undefined
  }

  #report(message: Message, acking: Acking): Promise<void> | undefined {
    if (acking.failure !== undefined) this.#verdictFailed(message, acking.failure)
    this.#settings.metrics?.count('ackord.settled', 1, { verdict: acking.state })
    announce(channels.settled, () => ({ message, verdict: acking.state, failure: acking.failure }))
    return probe('message.afterAck')
  }

  #untilSettled(acking: Acking): Promise<void> {
    const { signal } = this.#forced
    return new Promise<void>((resolve) => {
      const onAbort = () => void acking.nack(signal.reason, undefined).then(ignore, ignore)
      if (signal.aborted) onAbort()
      else signal.addEventListener('abort', onAbort, { once: true })
      void acking.answered.then(() => {
        signal.removeEventListener('abort', onAbort)
        resolve()
      })
    })
  }

  /** The middleware has ended, so no transaction may be open: one that was never ended would hold the verdict for ever. */
  #dropHolds(message: Message, failure: unknown): void {
    const acking = ackingOf(message)
    if (acking === undefined || !acking.held) return
    // Created on demand: an error for every message would be expensive.
    const reason = () =>
      failure ??
      new AckordError('ACKORD_SCOPE_ENDED', `The middleware around ${describeMessage(message)} ended before its transaction did.`)
    if (!acking.dropHolds(reason)) return
    this.#settings.logger.error(
      logFields(message),
      'A transaction scope around a message was never ended. Its callbacks and verdicts are dropped, and the message is settled.',
    )
  }

  /** Settles a message that was not handled. Never rejects. */
  async fail(message: Message, thrown: unknown): Promise<void> {
    this.failed += 1
    this.#dropHolds(message, thrown)
    const error = this.#policy.limitDeliveries(message, toError(thrown))
    // Another worker has it: that is not an error, and with many duplicates it is frequent. The inbox counts it.
    const busy = isAckordError(error, 'ACKORD_INBOX_BUSY')
    if (!busy) this.lastError = error
    const decision = this.#policy.decide(message, error)
    announce(channels.failed, () => ({ message, error, decision }))
    const { logger } = this.#settings
    if (busy) {
      logger.debug(
        { ...logFields(message), ...verdictFields(message, decision) },
        'Another worker is handling the message. It will be redelivered later.',
      )
    } else if (decision !== 'ack') {
      const fields = { err: error, ...logFields(message), ...verdictFields(message, decision) }
      logger.error(fields, `A message was not handled. ${messageOf(error)}`)
    }
    try {
      if (decision === 'ack') await message.ack()
      else if (decision === 'reject') await message.reject(error)
      else await message.nack(error, decision === 'nack' ? {} : decision)
    } catch {
      // Reported below.
    }
    const acking = ackingOf(message)
    if (acking === undefined) return
    if (acking.busy) await acking.settled
    await this.#report(message, acking)
  }

  #verdictFailed(message: Message, failure: unknown): void {
    const { logger, metrics } = this.#settings
    const err = toError(failure)
    this.lastError = err
    logger.error(
      { err, ...logFields(message), verdict: message.state },
      'The broker did not accept the verdict on a message; it will redeliver it.',
    )
    metrics?.count('ackord.settle_failed', 1, { verdict: message.state ?? 'none' })
  }
}

function ignore(): void {}

function isRefused({ state }: Message): boolean {
  return state === 'nacked' || state === 'rejected'
}

/** The verdict that the broker really sees, and what follows: the handler may have settled the message before it failed, or it has no acking. */
function verdictFields(message: Message, decision: ErrorDecision): Readonly<Record<string, unknown>> {
  const acking = ackingOf(message)
  if (acking === undefined) return { verdict: 'none' }
  const settled = isSettled(message)
  const verdict = settled ? acking.state : typeof decision === 'string' ? decision : 'nack'
  if (verdict === 'reject' || verdict === 'rejected') return { verdict, ...(acking.deadLetter && { deadLetter: acking.deadLetter }) }
  const retryAfter = settled ? acking.retryAfter : typeof decision === 'object' ? decision.retryAfter : undefined
  return { verdict, ...(retryAfter !== undefined && { retryAfter }) }
}

function stoppedInPause(message: Message): AckordError {
  return new AckordError(
    'ACKORD_SHUTDOWN',
    `The router was stopped while ${describeMessage(message)} waited for a store that rejected writes.`,
  )
}

function notAwaited(message: Message): AckordError {
  return new AckordError(
    'ACKORD_NEXT_NOT_AWAITED',
    `A middleware around ${describeMessage(message)} returned while the handler was still running. It must await next(message, context).`,
  )
}

function outputsLost(message: Message, found: unknown): AckordError {
  return new AckordError(
    'ACKORD_INVALID_OUTPUT',
    `The middleware around ${describeMessage(message)} returned ${describeValue(found)} instead of an array of messages. It must return what next() resolves to.`,
  )
}

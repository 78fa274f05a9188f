import { forwardAcking } from './ack-strategy.ts'
import type { Acking } from './acking.ts'
import { type Context, enterWith, rootContext, withDeadline, withSignal } from './context.ts'
import { AckordError, isAckordError, toError } from './errors.ts'
import { ackingOf, type Message } from './message.ts'
import type { OutputCompleter } from './outputs.ts'
import { probe } from './probe.ts'
import type { Process } from './process.ts'
import type { ErrorDecision, RouterSettings } from './router-options.ts'
import { nameOf } from './stages.ts'

/** What a run does around the handling of a message. */
export interface RunPorts {
  /** From what the source yields to what handlers take. Throws at what cannot be read. */
  readonly decode: ((message: Message) => Message) | undefined
  /** Hands the outputs on; `undefined` means that they are already gone. Rejects if they could not be. */
  readonly deliver: (outputs: readonly Message[], input: Message, signal: AbortSignal) => Promise<void> | undefined
  /** Gives up what is being handed on, when the shutdown is forced; `deliver` then rejects. */
  readonly abandon: ((reason: AckordError) => void) | undefined
}

/** The way of one message through the router, with acking as its outermost step: read, handled, outputs handed on, settled. */
export class MessageProcessor {
  readonly #settings: RouterSettings
  readonly #chain: Process
  readonly #complete: OutputCompleter
  readonly #ports: RunPorts
  readonly #forced = new AbortController()
  readonly #root: Context
  // One listener on `#forced` per message in hand would be many; the controllers are kept here instead.
  readonly #controllers = new Set<AbortController>()
  #uncountedWarned = false
  handled = 0
  failed = 0
  lastError: Error | undefined

  constructor(settings: RouterSettings, chain: Process, complete: OutputCompleter, ports: RunPorts) {
    this.#settings = settings
    this.#chain = chain
    this.#complete = complete
    this.#ports = ports
    this.#root = rootContext({ signal: this.#forced.signal, ambient: settings.ambient })
  }

  /** Aborts the signals of everything in hand. */
  force(reason: AckordError): void {
    this.#forced.abort(reason)
    for (const controller of this.#controllers) controller.abort(reason)
    this.#ports.abandon?.(reason)
  }

  /**
   * Handles and settles one message. Never rejects. Written with `then`, and with promises only where something waits:
   * each one saved here is a tenth of the router's cost when Node tracks promises for the ambient context.
   */
  handle(received: Message): Promise<void> {
    const paused = probe('message.received')
    return paused === undefined ? this.#handle(received) : paused.then(() => this.#handle(received))
  }

  #handle(received: Message): Promise<void> {
    let message = received
    let outputs: Promise<readonly Message[]>
    try {
      this.#checkDeliveries(received)
      const { decode } = this.#ports
      if (decode !== undefined) message = decode(received)
      outputs = this.#settings.processTimeout === Infinity ? this.#process(message, this.#root) : this.#processInTime(message)
    } catch (error) {
      return this.fail(message, error)
    }
    return outputs.then(
      (produced) => this.#finish(message, produced),
      (error: unknown) => this.fail(message, error),
    )
  }

  #finish(message: Message, outputs: readonly Message[]): Promise<void> | undefined {
    let handedOn: Promise<void> | undefined
    try {
      handedOn = outputs.length === 0 ? undefined : this.#handOn(message, outputs)
    } catch (error) {
      return this.fail(message, error)
    }
    if (handedOn === undefined) return this.#succeed(message)
    return handedOn.then(
      () => this.#succeed(message),
      (error: unknown) => this.fail(message, error),
    )
  }

  #process(message: Message, parent: Context): Promise<readonly Message[]> {
    const outputs = enterWith(message.context(parent), this.#chain, message)
    // Middleware written in JavaScript may forget to be async.
    return outputs instanceof Promise ? outputs : Promise.resolve(outputs)
  }

  async #processInTime(message: Message): Promise<readonly Message[]> {
    const { processTimeout, runtime } = this.#settings
    const controller = new AbortController()
    if (this.#forced.signal.aborted) controller.abort(this.#forced.signal.reason)
    this.#controllers.add(controller)
    const timer = runtime.setTimeout(() => controller.abort(tookTooLong(message, processTimeout)), processTimeout)
    const parent = withDeadline(withSignal(this.#root, controller.signal), runtime.now() + processTimeout)
    try {
      return await this.#process(message, parent)
    } finally {
      timer.cancel()
      this.#controllers.delete(controller)
    }
  }

  #handOn(message: Message, outputs: readonly Message[]): Promise<void> | undefined {
    // It will be handled again, and then these come again too.
    if (message.state === 'nacked' || message.state === 'rejected') return undefined
    // Middleware may have added some after the handler's were completed.
    const complete = this.#complete(outputs, message, this.#root)
    const forwarded = this.#settings.ackStrategy === 'forward' ? forwardAcking(message, complete) : complete
    return this.#ports.deliver(forwarded, message, this.#forced.signal)
  }

  /** Acks where that is the router's part. Gives a promise only where there is something to wait for: this is the innermost loop. */
  #succeed(message: Message): Promise<void> | undefined {
    this.handled += 1
    const acking = ackingOf(message)
    if (acking === undefined) return undefined
    const paused = probe('message.beforeAck')
    return paused === undefined ? this.#acknowledge(message, acking) : paused.then(() => this.#acknowledge(message, acking))
  }

  #acknowledge(message: Message, acking: Acking): Promise<void> | undefined {
    const { ackStrategy, orderingKey } = this.#settings
    // Not awaited as such: `failure` tells what went wrong, also when it was the handler that acked.
    if (ackStrategy === 'onSuccess') void acking.ack()
    if (acking.busy) return acking.settled.then(() => this.#report(message, acking))
    // Outputs that nobody has settled yet keep a forwarding message pending; the next one of its key must not overtake it.
    if (ackStrategy === 'forward' && orderingKey !== undefined && acking.state === 'pending') {
      return this.#untilSettled(acking).then(() => this.#report(message, acking))
    }
    return this.#report(message, acking)
  }

  #report(message: Message, acking: Acking): Promise<void> | undefined {
    if (acking.failure !== undefined) this.#verdictFailed(message, acking.failure)
    this.#settings.metrics?.count('ackord.settled', 1, { verdict: acking.state })
    return probe('message.afterAck')
  }

  #untilSettled(acking: Acking): Promise<void> {
    const { signal } = this.#forced
    return new Promise<void>((resolve) => {
      const onAbort = () => resolve(acking.nack(signal.reason, undefined).then(ignore, ignore))
      if (signal.aborted) onAbort()
      else signal.addEventListener('abort', onAbort, { once: true })
      void acking.settled.then(() => {
        signal.removeEventListener('abort', onAbort)
        resolve()
      })
    })
  }

  /** Settles a message that was not handled. Never rejects. */
  async fail(message: Message, thrown: unknown): Promise<void> {
    this.failed += 1
    const error = this.#limitDeliveries(message, toError(thrown))
    this.lastError = error
    const decision = this.#decide(message, error)
    const { logger } = this.#settings
    const verdict = typeof decision === 'string' ? decision : 'nack'
    if (verdict !== 'ack') {
      const fields = { err: error, type: message.type, id: message.id, deliveryCount: message.deliveryCount, verdict }
      logger.error(fields, `Could not handle ${nameOf(message)}: ${error.message}`)
    }
    try {
      if (decision === 'ack') await message.ack()
      else if (decision === 'reject') await message.reject(error)
      else await message.nack(error, { retryAfter: decision === 'nack' ? this.#delayOf(message, error) : decision.retryAfter })
    } catch {
      // Told below.
    }
    const acking = ackingOf(message)
    if (acking === undefined) return
    if (acking.busy) await acking.settled
    await this.#report(message, acking)
  }

  #decide(message: Message, error: Error): ErrorDecision {
    const { onError, onUnknownType, logger } = this.#settings
    try {
      const decision = onError?.(error, message)
      if (decision !== undefined) return decision
    } catch (err) {
      logger.error({ err }, 'onError itself failed; the message is settled as if it had decided nothing.')
    }
    if (isAckordError(error, 'ACKORD_NO_HANDLER') || isAckordError(error, 'ACKORD_HANDLER_REFUSED')) return onUnknownType
    return isAckordError(error) && !error.retryable ? 'reject' : 'nack'
  }

  #delayOf(message: Message, error: Error): number {
    if (this.#forced.signal.aborted) return 0
    if ('retryAfter' in error && typeof error.retryAfter === 'number') return error.retryAfter
    const { redeliveryDelay, runtime } = this.#settings
    return redeliveryDelay(message.deliveryCount ?? 1, runtime.random)
  }

  /** One that was delivered too often is not tried again: it may be what kills the process. */
  #checkDeliveries(message: Message): void {
    const { maxDeliveries, logger } = this.#settings
    if (maxDeliveries === Infinity) return
    if (message.deliveryCount === undefined) {
      if (!this.#uncountedWarned) logger.warn({ maxDeliveries }, 'maxDeliveries has no effect: this source does not count deliveries.')
      this.#uncountedWarned = true
    } else if (message.deliveryCount > maxDeliveries) {
      throw tooManyDeliveries(message, maxDeliveries, undefined)
    }
  }

  #limitDeliveries(message: Message, error: Error): Error {
    const { maxDeliveries } = this.#settings
    const last = message.deliveryCount !== undefined && message.deliveryCount >= maxDeliveries
    const settled = message.state !== undefined && message.state !== 'pending'
    if (!last || settled || this.#forced.signal.aborted || isAckordError(error, 'ACKORD_MAX_DELIVERIES')) return error
    return isAckordError(error) && !error.retryable ? error : tooManyDeliveries(message, maxDeliveries, error)
  }

  #verdictFailed(message: Message, failure: unknown): void {
    const { logger, metrics } = this.#settings
    const err = toError(failure)
    this.lastError = err
    logger.error({ err, type: message.type, id: message.id, verdict: message.state }, 'The broker did not take the verdict on a message; it will deliver it again.')
    metrics?.count('ackord.settle_failed', 1, { verdict: message.state ?? 'none' })
  }
}

function ignore(): void {}

function tookTooLong(message: Message, processTimeout: number): AckordError {
  return new AckordError('ACKORD_PROCESS_TIMEOUT', `Handling ${nameOf(message)} took longer than the processTimeout of ${processTimeout} ms.`)
}

function tooManyDeliveries(message: Message, maxDeliveries: number, cause: Error | undefined): AckordError {
  const text = `${nameOf(message)} was delivered ${message.deliveryCount} times; maxDeliveries is ${maxDeliveries}.`
  return new AckordError('ACKORD_MAX_DELIVERIES', text[0]?.toUpperCase() + text.slice(1), {
    retryable: false,
    ...(cause === undefined ? {} : { cause }),
  })
}

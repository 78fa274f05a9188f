import type { InvocationOptions, SingleMessageHandler } from '@ackord/core/broker'
import { checkDuration, Invocations, type InvocationTime, type InvokedMessage } from '@ackord/core/internal'

export interface ServerlessOptions extends InvocationOptions {
  /**
   * Milliseconds that an invocation may take: a little less than the time limit of the platform, which functions cannot read. A second before its end the signals of handlers
   * that still run are aborted, and half a second later they count as failed. Default: Infinity, no limit.
   */
  readonly timeout?: number | undefined
}

/** Handles the messages of invocations, each of which has the same time. */
export class TimedInvocations {
  readonly invocations: Invocations
  readonly #time: InvocationTime

  constructor(handler: SingleMessageHandler, options: ServerlessOptions) {
    const { timeout = Infinity, ...invoking } = options
    checkDuration('timeout', timeout, { min: 1, infinite: true })
    this.#time = { remaining: timeout, margin: Math.min(1000, timeout / 2) }
    this.invocations = new Invocations(handler, invoking)
  }

  /** Handles the messages concurrently, as far as the router allows, and drains the outbox. Throws if a message must be delivered again. */
  async handleAll(messages: readonly InvokedMessage[]): Promise<void> {
    const { invocations } = this
    const time = invocations.clock(this.#time)
    const outcomes = await Promise.all(messages.map((message) => invocations.handle(message, time())))
    await invocations.drain(time())
    invocations.rethrow(outcomes)
  }

  /** The same for a platform that is told about each message by itself. Never rejects. */
  async handleEach<M>(
    messages: readonly M[],
    read: (message: M) => InvokedMessage,
    settle: (message: M, outcome: Awaited<ReturnType<Invocations['handle']>>) => void,
  ): Promise<void> {
    const { invocations } = this
    const time = invocations.clock(this.#time)
    await Promise.all(messages.map(async (message) => settle(message, await invocations.handle(read(message), time()))))
    await invocations.drain(time())
  }
}

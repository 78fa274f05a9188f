import { AckordError, Message, type RawMessage, type SharedPorts, type Source } from '@ackord/core'
import type { BrokerRules } from './broker-rules.ts'

export interface DecoratedSourceParts {
  readonly rules: BrokerRules
  /** A new source of the same group. */
  open(): Source & AsyncDisposable
  append(message: RawMessage): Promise<unknown>
}

type Step = IteratorResult<RawMessage, undefined>

const done = { done: true, value: undefined } as const
const never = new AbortController().signal

/** A source of a MemoryBroker that follows the rules. A restart replaces the inner source, and the iterations continue with the new one. */
export class DecoratedSource implements Source, AsyncDisposable {
  readonly #parts: DecoratedSourceParts
  readonly #unsettled = new Set<RawMessage>()
  #inner: Source & AsyncDisposable
  #restarts = 0
  #disposed = false

  constructor(parts: DecoratedSourceParts) {
    this.#parts = parts
    this.#inner = parts.open()
  }

  get system(): string | undefined {
    return this.#parts.rules.address.system
  }

  get serverAddress(): string | undefined {
    return this.#parts.rules.address.serverAddress
  }

  get serverPort(): number | undefined {
    return this.#parts.rules.address.serverPort
  }

  messages(options: { readonly signal: AbortSignal }): AsyncIterableIterator<RawMessage> {
    const { honoursSignal } = this.#parts.rules
    return new DecoratedIteration(this, this.#parts.rules, honoursSignal ? options.signal : never)
  }

  inheritPorts(ports: SharedPorts): void {
    this.#inner.inheritPorts?.(ports)
  }

  get restarts(): number {
    return this.#restarts
  }

  iterate(signal: AbortSignal): AsyncIterator<RawMessage> {
    return this.#inner.messages({ signal })[Symbol.asyncIterator]()
  }

  async restart(): Promise<void> {
    const before = this.#inner
    this.#inner = this.#parts.open()
    this.#restarts += 1
    if (!this.#parts.rules.survivesRestart) for (const message of this.#unsettled) await message.ack()
    await before[Symbol.asyncDispose]()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { rules } = this.#parts
    if (this.#disposed && !rules.disposesTwice) throw new Error('The source is already disposed.')
    this.#disposed = true
    await rules.beforeRedelivery({ unsettled: this.#unsettled, append: (message) => this.#parts.append(message) })
    if (rules.disposeEndsIterations) await this.#inner[Symbol.asyncDispose]()
  }

  wrap(inner: RawMessage): RawMessage {
    const { rules } = this.#parts
    const restarts = this.#restarts
    this.#unsettled.add(inner)
    const settle = async (verdict: () => Promise<unknown>) => {
      if (restarts !== this.#restarts) throw new AckordError('ACKORD_LEASE_LOST', 'The broker was restarted.')
      this.#unsettled.delete(inner)
      if (this.#disposed && !rules.refusesLateVerdicts) return
      await verdict()
    }
    const message = new Message(inner.data, inner.attributes, {
      deliveryCount: rules.deliveryCount(inner.deliveryCount),
      acking: {
        ack: () => settle(() => rules.ack(inner, { unsettled: this.#unsettled, append: (copy) => this.#parts.append(copy) })),
        nack: (_error, { retryAfter }) => settle(() => rules.nack(inner, retryAfter)),
        reject: (error) => settle(() => inner.reject(error)),
      },
    })
    return rules.deliver(message)
  }
}

class DecoratedIteration implements AsyncIterableIterator<RawMessage> {
  readonly #source: DecoratedSource
  readonly #rules: BrokerRules
  readonly #signal: AbortSignal
  readonly #buffer: Promise<Step>[] = []
  #restarts: number
  #inner: AsyncIterator<RawMessage>

  constructor(source: DecoratedSource, rules: BrokerRules, signal: AbortSignal) {
    this.#source = source
    this.#rules = rules
    this.#signal = signal
    this.#restarts = source.restarts
    this.#inner = source.iterate(signal)
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<Step> {
    while (this.#buffer.length <= this.#rules.buffers) this.#buffer.push(this.#pull())
    return (await this.#buffer.shift()) ?? done
  }

  async return(): Promise<Step> {
    if (this.#rules.leaveDisposes) await this.#source[Symbol.asyncDispose]()
    await this.#inner.return?.()
    return done
  }

  async #pull(): Promise<Step> {
    for (;;) {
      const step = await this.#inner.next()
      if (step.done !== true) return { done: false, value: this.#source.wrap(step.value) }
      if (this.#restarts === this.#source.restarts) return done
      this.#restarts = this.#source.restarts
      this.#inner = this.#source.iterate(this.#signal)
    }
  }
}

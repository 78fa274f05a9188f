import { type Attributes, Message, type NackOptions, type RawMessage, type Source } from '@ackord/core'

/** A verdict as the broker got it. */
export interface VerdictCall {
  readonly verdict: 'ack' | 'nack' | 'reject'
  readonly error?: unknown
  readonly options?: NackOptions | undefined
}

export interface TrackedMessage {
  readonly message: RawMessage
  readonly calls: readonly VerdictCall[]
  /** The verdicts alone. A settled message has exactly one. */
  readonly verdicts: readonly VerdictCall['verdict'][]
}

export interface TrackedMessageOptions {
  /** Sent as JSON. Default: null. */
  readonly data?: unknown
  /** Added to `id`, `type`, `source` and `specversion`, or in their place; `undefined` removes one. */
  readonly attributes?: Attributes | undefined
  readonly deliveryCount?: number | undefined
  /** Runs when the verdict is given; what it throws is the broker's refusal. Default: nothing. */
  readonly onVerdict?: ((verdict: VerdictCall['verdict']) => void | Promise<void>) | undefined
}

/** A message as a source yields it, of type `order.place` from `/shop`, whose verdicts are written down. */
export function trackedMessage(id: string, options: TrackedMessageOptions = {}): TrackedMessage {
  const { data = null, attributes = {}, deliveryCount, onVerdict } = options
  const calls: VerdictCall[] = []
  const take = (call: VerdictCall) => {
    calls.push(call)
    return onVerdict?.(call.verdict)
  }
  const complete: Record<string, Attributes[string]> = { id, type: 'order.place', source: '/shop', specversion: '1.0', ...attributes }
  for (const name in complete) if (complete[name] === undefined) delete complete[name]
  const message = new Message(new TextEncoder().encode(JSON.stringify(data)), complete, {
    deliveryCount,
    acking: {
      ack: () => take({ verdict: 'ack' }),
      nack: (error, nackOptions) => take({ verdict: 'nack', error, options: nackOptions }),
      reject: (error) => take({ verdict: 'reject', error }),
    },
  })
  return {
    message,
    calls,
    get verdicts() {
      return calls.map((call) => call.verdict)
    },
  }
}

/** A source that yields these messages and ends. */
export function sourceOf(...messages: readonly { readonly message: RawMessage }[]): Source {
  return {
    async *messages({ signal }) {
      for (const { message } of messages) {
        if (signal.aborted) return
        yield message
      }
    },
  }
}

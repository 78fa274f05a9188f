import { type Attributes, type Logger, Message, type NackOptions, type RawMessage, type Source } from '@ackord/core'

/** A verdict as the broker received it. */
export interface VerdictCall {
  readonly verdict: 'ack' | 'nack' | 'reject'
  readonly error?: unknown
  readonly options?: NackOptions | undefined
}

export interface TrackedMessage {
  readonly message: RawMessage
  readonly calls: readonly VerdictCall[]
  /** The verdicts without their details. A settled message has exactly one. */
  readonly verdicts: readonly VerdictCall['verdict'][]
}

export interface TrackedMessageOptions {
  /** Sent as JSON. Default: null. */
  readonly data?: unknown
  /** Added to `id`, `type`, `source` and `specversion`, or replaces them; `undefined` removes an attribute. */
  readonly attributes?: Attributes | undefined
  readonly deliveryCount?: number | undefined
  /** Called with each verdict. An error that it throws is the refusal of the broker. Optional. */
  readonly onVerdict?: ((verdict: VerdictCall['verdict']) => void | Promise<void>) | undefined
}

/** A message as a source yields it, of type `order.place` from `/shop`, whose verdicts are recorded. */
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

export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly fields: object
  readonly text: string
}

export interface RecordingLogger extends Logger {
  readonly lines: readonly LogLine[]
  at(level: LogLine['level']): LogLine[]
}

/** Records log lines and prints nothing. */
export function recordingLogger(): RecordingLogger {
  const lines: LogLine[] = []
  const record = (level: LogLine['level']) => (fields: object, text: string) => void lines.push({ level, fields, text })
  return {
    lines,
    at: (level) => lines.filter((line) => line.level === level),
    debug: record('debug'),
    info: record('info'),
    warn: record('warn'),
    error: record('error'),
  }
}

/** A promise that is resolved or rejected from outside: the signal that a test waits for instead of sleeping. */
export interface Deferred<T> {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
  readonly reject: (error: unknown) => void
}

export function deferred<T = void>(): Deferred<T> {
  let resolve: (value: T) => void = () => {}
  let reject: (error: unknown) => void = () => {}
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  return { promise, resolve, reject }
}

import {
  AckordError,
  type Context,
  deterministicIds,
  type Logger,
  type Message,
  type Metrics,
  type Middleware,
  type MiddlewareInfo,
  middleware,
  type Part,
  type Process,
} from '@ackord/core'
import {
  announce,
  channels,
  checkFunction,
  checkName,
  describeMessage,
  describeValue,
  enterWith,
  isSettled,
  logFields,
  outputIdsKey,
  PartPorts,
  probe,
  transactionScopeKey,
} from '@ackord/core/internal'

/** The options of an inbox on every store. */
export interface InboxOptions {
  /** The name of this consumer: each consumer handles a message once. It has no default: two consumers with the same name lose messages. */
  readonly consumer: string
  /** Identifies a message, instead of its source and id. Default: source and id. */
  readonly key?: ((message: Message) => string) | undefined
  /** Called with each duplicate, before it is acked. An error it throws fails the message. Default: none. */
  readonly onDuplicate?: ((message: Message) => void | Promise<void>) | undefined
  /** Receives a debug line per duplicate. Default: that of the router. */
  readonly logger?: Logger | undefined
  /** Counts `ackord.inbox.handled` and `ackord.inbox.duplicates`. Default: those of the router. */
  readonly metrics?: Metrics | undefined
}

/** Identifies a message for a consumer. Compared byte for byte. */
export interface InboxKey {
  readonly consumer: string
  readonly source: string
  readonly id: string
}

/**
 * The result of looking up a message in the store:
 *
 * - `new`: the record is part of the transaction of this context. The middleware handles the message there.
 * - `duplicate`: the message has been handled. The middleware acks it.
 * - a function: the message is new, and the store needs to know how handling it ended, because its record commits or is released then. The function
 *   calls `next`. It resolves to `undefined` if another worker has handled the message in the meantime, which makes it a duplicate.
 */
export type InboxFinding = 'new' | 'duplicate' | HandleRecorded

export type HandleRecorded = (next: Process, message: Message, context: Context) => Promise<readonly Message[] | undefined>

/** Where an inbox records the messages that it has handled. */
export interface InboxStore {
  /**
   * Records the message, unless it has been recorded. The record must commit together with the writes of the handler. Rejects if that cannot be
   * known or is not possible: the message is then not handled.
   */
  record(message: Message, context: Context, key: InboxKey): InboxFinding | Promise<InboxFinding>
}

/** The rules of one consumer, without the store. */
export interface Inbox extends Required<Part> {
  readonly consumer: string
  /** Throws a non-retryable error for a message that no inbox could identify. */
  keyOf(message: Message): InboxKey
  /**
   * Handles a message that has been recorded as new, and counts it when the transaction of the context has committed. The ids of its outputs are the same
   * for every delivery.
   */
  handle(next: Process, message: Message, context: Context, key: InboxKey): Promise<readonly Message[]>
  /** Counts a message that was handled and whose record has been committed. */
  countHandled(): void
  /** Counts and acks a duplicate. */
  skip(message: Message): Promise<readonly Message[]>
}

/** Returns the reason why a store cannot keep a part of a key unchanged, such as "is longer than 255 bytes"; `undefined` if it can. */
export type KeyProblem = (value: string) => string | undefined

/** Checks the options that all stores share. A store with further options takes them out first, and rejects unknown ones. */
export function openInbox(options: InboxOptions, problemOf: KeyProblem = () => undefined): Inbox {
  const { consumer, key, onDuplicate, logger, metrics } = options
  checkName('consumer', consumer)
  if (key !== undefined) checkFunction('key', key)
  if (onDuplicate !== undefined) checkFunction('onDuplicate', onDuplicate)
  // Only debug lines, which the console does not show.
  const ports = new PartPorts({ logger, metrics })

  function checkPart(message: Message, part: string, value: unknown): string {
    if (value === undefined || value === null || value === '') {
      throw unrecognisable('ACKORD_MISSING_ATTRIBUTE', message, `it has no ${part}`)
    }
    const problem = typeof value === 'string' ? problemOf(value) : `is ${describeValue(value)}, not a string`
    if (problem !== undefined) throw unrecognisable('ACKORD_INVALID_ATTRIBUTES', message, `its ${part} ${problem}`)
    return value as string
  }

  const countHandled = () => ports.metrics?.count('ackord.inbox.handled', 1, { consumer })

  return {
    consumer,
    inheritPorts: ports.inheritPorts,
    countHandled,

    keyOf(message) {
      if (key !== undefined) return { consumer, source: '', id: checkPart(message, 'inbox key', key(message)) }
      const { source = '', id } = message.attributes
      if (source !== '') checkPart(message, 'source', source)
      return { consumer, source, id: checkPart(message, 'id', id) }
    },

    handle(next, message, context, { source, id }) {
      if (ports.metrics !== undefined) context.get(transactionScopeKey)?.afterCommit(countHandled)
      const inside = context.with(outputIdsKey, deterministicIds(consumer, source, id))
      const paused = probe('inbox.recorded')
      return paused === undefined ? enterWith(inside, next, message) : paused.then(() => enterWith(inside, next, message))
    },

    async skip(message) {
      ports.metrics?.count('ackord.inbox.duplicates', 1, { consumer })
      announce(channels.duplicate, () => ({ message, consumer }))
      ports.logger.debug({ consumer, ...logFields(message) }, 'A duplicate was skipped.')
      await onDuplicate?.(message)
      await message.ack() // Also under `manual`, where nothing else acks it. In a transaction the ack waits for the commit.
      return none
    },
  }
}

const none: readonly Message[] = []

function unrecognisable(code: 'ACKORD_MISSING_ATTRIBUTE' | 'ACKORD_INVALID_ATTRIBUTES', message: Message, reason: string): AckordError {
  return new AckordError(code, `The inbox cannot recognise ${describeMessage(message)}: ${reason}.`, { retryable: false })
}

export interface InboxMiddlewareParts {
  readonly inbox: Inbox
  readonly store: InboxStore
  /** The role and the database, by which the router checks the order of the middleware. */
  readonly info: MiddlewareInfo
  /** Whether the middleware inside is known to return no outputs; otherwise outputs are rejected. Default: false. */
  readonly outputsAreStored?: boolean | undefined
}

/** Handles a message once: asks the store whether it is new, and acks a duplicate without handling it. */
export function createInboxMiddleware({ inbox, store, info, outputsAreStored = false }: InboxMiddlewareParts): Middleware {
  return middleware({ inheritPorts: inbox.inheritPorts, ...info }, (next) => {
    const process = outputsAreStored ? next : rejectOutputs(next)

    function proceed(finding: InboxFinding, message: Message, context: Context, key: InboxKey): Promise<readonly Message[]> {
      if (finding === 'new') return inbox.handle(process, message, context, key)
      if (finding === 'duplicate') return inbox.skip(message)

      function handled(outputs: readonly Message[] | undefined): readonly Message[] | Promise<readonly Message[]> {
        if (outputs === undefined) return inbox.skip(message)
        // The store does not remember a message that was nacked or rejected.
        if (!isSettled(message) || message.state === 'acked') inbox.countHandled()
        return outputs
      }

      const handle = () => finding(process, message, context).then(handled)
      const paused = probe('inbox.recorded')
      return paused === undefined ? handle() : paused.then(handle)
    }

    // No async/await on the hot path: saves promises, and there may be nothing to wait for.
    return function handleOnce(message, context) {
      try {
        const key = inbox.keyOf(message)
        const recording = store.record(message, context, key)
        return recording instanceof Promise
          ? recording.then((finding) => proceed(finding, message, context, key))
          : proceed(recording, message, context, key)
      } catch (error) {
        return Promise.reject(error)
      }
    }
  })
}

/** Rejects the outputs of a handler. Without an outbox inside of the inbox, a crash after the commit would lose them. */
function rejectOutputs(next: Process): Process {
  return function withoutOutputs(message, context) {
    return next(message, context).then((outputs) => {
      if (outputs.length > 0) throw outputsWithoutOutbox(message, outputs.length)
      return outputs
    })
  }
}

export function outputsWithoutOutbox(message: Message, count: number): AckordError {
  return new AckordError(
    'ACKORD_INVALID_OUTPUT',
    `The handler of ${describeMessage(message)} returned ${count} outputs, but no outbox stores them. If the process crashed after the commit, they would be lost: the redelivered message would be skipped as a duplicate. Add outboxMiddleware() inside of the inbox.`,
  )
}

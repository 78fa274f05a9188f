import type { Logger, RawMessage, Runtime } from '@ackord/core'
import type { OutboxRecord } from '@ackord/outbox'

/** Returns the record without the texts that no user may see. Only its `message` and its `lastError` are used. */
export type Redact = (record: OutboxRecord) => OutboxRecord

/** A record as it may leave the process. `message`: `undefined` if it could not be redacted. */
export interface VisibleRecord extends Omit<OutboxRecord, 'message'> {
  readonly message: RawMessage | undefined
  /** Bytes of the payload. */
  readonly size: number
}

/** Shown instead of a text. */
export const notRedacted = 'could not be redacted'

/** Milliseconds. A function that fails for one record of a list often fails for all. */
const logInterval = 60_000

/** Applies the option `redact` to records, and to the other texts that are about a record. */
export class Redactor {
  readonly #redact: Redact | undefined
  readonly #runtime: Runtime
  readonly #logger: Logger
  #loggedAt = -Infinity

  constructor(redact: Redact | undefined, { runtime, logger }: { readonly runtime: Runtime; readonly logger: Logger }) {
    this.#redact = redact
    this.#runtime = runtime
    this.#logger = logger
  }

  get isActive(): boolean {
    return this.#redact !== undefined
  }

  show(record: OutboxRecord): VisibleRecord {
    const redacted = this.#apply(record)
    if (redacted === undefined)
      return { ...record, message: undefined, lastError: notRedacted, cause: undefined, size: record.message.data.byteLength }
    const { message, lastError } = redacted
    const cause = record.cause === undefined ? undefined : this.showError(record, record.cause)
    return { ...record, message, lastError, cause, size: message.data.byteLength }
  }

  /** Another error text of a record, such as one of its history, as if it were its last error. */
  showError(record: OutboxRecord, error: string): string {
    if (this.#redact === undefined) return error
    const redacted = this.#apply({ ...record, lastError: error, cause: error })
    return redacted === undefined ? notRedacted : (redacted.lastError ?? '')
  }

  #apply(record: OutboxRecord): Pick<OutboxRecord, 'message' | 'lastError'> | undefined {
    if (this.#redact === undefined) return record
    try {
      const { message, lastError } = this.#redact(record)
      const isText = lastError === undefined || typeof lastError === 'string'
      if (!isText || !(message.data instanceof Uint8Array) || typeof message.attributes !== 'object')
        throw new TypeError('redact() must return a record.')
      return { message, lastError }
    } catch (error) {
      this.#log(record.id, error)
      return undefined
    }
  }

  #log(id: string, error: unknown): void {
    const now = this.#runtime.monotonic()
    if (now - this.#loggedAt < logInterval) return
    this.#loggedAt = now
    this.#logger.error({ err: error, id }, 'A record could not be redacted. The dashboard does not show its content.')
  }
}

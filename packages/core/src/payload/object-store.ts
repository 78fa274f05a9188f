import { AckordError, InvalidOptionError } from '../errors.ts'
import { escapeText } from '../escape-text.ts'

/**
 * Where `claimCheck()` stores the data of large messages: a bucket of an S3 API (`s3Objects()` of `@ackord/aws`), or a directory (`fileObjects()`).
 *
 * A key has up to 512 letters, digits and the characters `-_./`; its parts between slashes have 1 to 200 characters and do not begin with a dot. A store rejects
 * every other key with `checkObjectKey()`: keys come from messages, and must not lead out of the store. A store may reject a key that continues another one after a
 * slash, as file systems do.
 *
 * An aborted call rejects with the reason of its signal. `testObjectStore()` of `@ackord/testkit/suites` tests all of this.
 */
export interface ObjectStore {
  /**
   * Stores the bytes under the key, and resolves when they are durable and every reader finds them. An object of that key is replaced: a key always stands for the
   * same bytes, so that a repeat changes nothing but `storedAt`, which becomes the current time. `get()` never returns an object that is written in part.
   */
  put(key: string, bytes: Uint8Array, options: ObjectCallOptions): Promise<void>
  /**
   * The bytes; `undefined` if there is no such object: the message is then rejected. Rejects if that cannot be found out, because the store is not reachable, or the
   * bucket or directory itself is missing: the message is then retried.
   */
  get(key: string, options: GetObjectOptions): Promise<Uint8Array | undefined>
  /** Deletes any number of objects. A key without an object is no error. */
  delete(keys: readonly string[]): Promise<void>
  /**
   * The objects that were stored before a time, in any order. Objects that are stored or deleted meanwhile may be missing. Objects that were not stored with `put()` may
   * be listed if their names are valid keys: `collectObjects()` recognises those of `claimCheck()`.
   */
  list(options: ListObjectsOptions): AsyncIterable<StoredObject>
}

export interface ObjectCallOptions {
  /** Aborted when the `codecTimeout` is over, or the shutdown of the router is forced. */
  readonly signal: AbortSignal
}

export interface GetObjectOptions extends ObjectCallOptions {
  /**
   * The maximum bytes of the object, such as the size that its reference states. A larger object is rejected with `ObjectTooLargeError`, before it is in memory.
   * Default: no limit.
   */
  readonly maxBytes?: number | undefined
}

export interface ListObjectsOptions {
  readonly olderThan: Date
}

export interface StoredObject {
  readonly key: string
  readonly storedAt: Date
}

/** An object is larger than its reader accepts. Not retryable. */
export class ObjectTooLargeError extends AckordError {
  static {
    this.prototype.name = 'ObjectTooLargeError'
  }

  constructor(key: string, size: number, maxBytes: number) {
    const text = `The object '${escapeText(key, 200)}' has ${size} bytes, and at most ${maxBytes} were expected. It is not what the message refers to.`
    super('ACKORD_PAYLOAD_INVALID', text, { retryable: false })
  }
}

const maxKeyLength = 512
const keyPattern = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}(?:\/[A-Za-z0-9_-][A-Za-z0-9._-]{0,199})*$/

export function isObjectKey(key: unknown): key is string {
  return typeof key === 'string' && key.length <= maxKeyLength && keyPattern.test(key)
}

/** For object stores: throws unless the key is valid. Returns it. */
export function checkObjectKey(key: string): string {
  if (isObjectKey(key)) return key
  throw new InvalidOptionError(
    'key',
    `must be up to ${maxKeyLength} letters, digits and '-_./', with parts of 1 to 200 characters that do not begin with a dot.`,
  )
}

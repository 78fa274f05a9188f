import { AckordError, describeValue, InvalidOptionError } from '../errors.ts'
import { checkName, rejectUnknownOptions } from '../options.ts'
import type { CodecCallOptions } from './codec.ts'

/** A key of AES-256: 32 random bytes, as `crypto.randomBytes(32)` makes them. `'forgotten'`: it was erased on purpose. `undefined`: there is no such key. */
export type KeyAnswer = Uint8Array | 'forgotten' | undefined

/**
 * Where `encrypted()` gets its keys from. An id is written into each message and is not secret; it has 1 to 255 bytes in UTF-8, and always stands for the same key.
 * A ring that asks a server should cache keys, for no longer than a forgotten key may still be used.
 */
export interface KeyRing {
  /** The id of the key for new messages. Another id from one message to the next is a rotation. */
  readonly current: string
  /**
   * The key with this id. The id comes from a message, and so from everyone who can write to the broker. Rejects if the key is temporarily unavailable: the
   * message is then retried. A message whose key is unknown or forgotten is rejected.
   */
  get(keyId: string, options: CodecCallOptions): KeyAnswer | Promise<KeyAnswer>
  /** The key for a new message. May create it, for example at the first message of a person. Default: `get`. */
  getOrCreate?(keyId: string, options: CodecCallOptions): KeyAnswer | Promise<KeyAnswer>
}

export interface StaticKeysOptions {
  /** The id of the key for new messages. */
  readonly current: string
  /** All keys by their ids: the current one, those of messages that may still be read, and the next one, before it becomes the current one. */
  readonly keys: Readonly<Record<string, Uint8Array>>
  /** The ids of keys that were erased on purpose. Default: none. */
  readonly forgotten?: readonly string[] | undefined
}

/** A key ring of the configuration. */
export function staticKeys(options: StaticKeysOptions): KeyRing {
  const { current, keys, forgotten = [], ...unknown } = options
  rejectUnknownOptions('staticKeys()', unknown)
  checkName('current', current)
  if (typeof keys !== 'object' || keys === null)
    throw new InvalidOptionError('keys', `must be an object of keys; it is ${describeValue(keys)}.`)
  // A copy of the bytes: the caller may overwrite its own.
  const byId = new Map(Object.entries(keys).map(([id, key]) => [checkKeyId(id), new Uint8Array(checkKey(`keys['${id}']`, key))]))
  const erased = new Set(forgotten)
  const both = [...byId.keys()].find((id) => erased.has(id))
  if (both !== undefined) throw new InvalidOptionError('forgotten', `names '${both}', which is among the keys.`)
  if (!byId.has(current)) throw new InvalidOptionError('current', `is '${current}', and the keys have no such id.`)
  return {
    current,
    get(keyId) {
      const key = byId.get(keyId)
      return key === undefined ? (erased.has(keyId) ? 'forgotten' : undefined) : new Uint8Array(key)
    },
  }
}

function checkKey(option: string, key: unknown): Uint8Array {
  if (isKey(key)) return key
  throw new InvalidOptionError(option, `must be a Uint8Array of 32 bytes; it is ${describeKey(key)}.`)
}

export function checkKeyId(keyId: unknown): string {
  if (typeof keyId === 'string' && keyId.isWellFormed() && keyId !== '' && Buffer.byteLength(keyId) <= 255) return keyId
  throw new InvalidOptionError(
    'A key id',
    `must be a string of 1 to 255 bytes; it is ${typeof keyId === 'string' ? 'another one' : describeValue(keyId)}.`,
  )
}

export function checkKeyRing(keys: KeyRing): void {
  if (typeof keys?.get === 'function' && (keys.getOrCreate === undefined || typeof keys.getOrCreate === 'function')) return
  throw new InvalidOptionError('keys', 'must be a key ring, such as staticKeys({ current, keys }).')
}

/** Passes the answer on: at once if it is there, so that a ring in memory costs no promise. */
export function whenAnswered<T>(answer: KeyAnswer | PromiseLike<KeyAnswer>, use: (answer: KeyAnswer) => T): T | Promise<T> {
  return typeof answer === 'object' && answer !== null && 'then' in answer ? Promise.resolve(answer).then(use) : use(answer)
}

/** The key of an answer. `retryable`: whether the key may be there later; a reader sends the message to the dead letter otherwise. */
export function keyOf(answer: KeyAnswer, keyId: string, owner: string, options: { readonly retryable: boolean }): Uint8Array {
  if (answer === 'forgotten') {
    const text = `The key '${keyId}' of ${owner} was forgotten: its data is erased.`
    throw new AckordError('ACKORD_KEY_FORGOTTEN', text, { retryable: false })
  }
  if (answer === undefined) {
    const text = `There is no key '${keyId}' for ${owner}. Add it to the key ring of this service.`
    throw new AckordError('ACKORD_KEY_UNKNOWN', text, options)
  }
  if (isKey(answer)) return answer
  // The ring is at fault, not the message.
  throw new AckordError(
    'ACKORD_CODEC_FAILED',
    `The key ring must return 32 bytes for the key '${keyId}' of ${owner}; it returned ${describeKey(answer)}.`,
  )
}

function isKey(key: unknown): key is Uint8Array {
  return key instanceof Uint8Array && key.byteLength === 32
}

/** Never shows it. */
function describeKey(key: unknown): string {
  return key instanceof Uint8Array ? `${key.byteLength} bytes` : describeValue(key)
}

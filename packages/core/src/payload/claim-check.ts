import { createHash } from 'node:crypto'
import { AckordError, InvalidOptionError } from '../errors.ts'
import { describeMessage, invalidMessageError } from '../message/marshal.ts'
import type { RawMessage } from '../message/message.ts'
import { checkCount, checkFunction, rejectUnknownOptions } from '../options.ts'
import { type Runtime, systemRuntime } from '../ports/runtime.ts'
import { claimKey, claimName } from './claim-key.ts'
import { readReference, writeReference } from './claim-reference.ts'
import type { PayloadCodec } from './codec.ts'
import { isObjectKey, type ObjectStore } from './object-store.ts'

export interface ClaimCheckOptions {
  /** Where the data of large messages is stored. */
  readonly store: ObjectStore
  /** The data of a message goes to the store if it has more bytes than this; 0 stores all data. Default: 262,144 (256 kB), the limit of several cloud brokers. */
  readonly above?: number | undefined
  /**
   * The maximum bytes of the data of a message. A larger one is refused when it is written and when it is read: the reader holds all of it in memory.
   * Default: 104,857,600 (100 MB).
   */
  readonly maxBytes?: number | undefined
  /** Precedes the keys of new objects, such as `orders/`. Readers accept every prefix. Default: none. */
  readonly keyPrefix?: string | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** Marks a message whose data is a reference. Its value is the version of the reference. */
const marker = 'ackordclaimcheck'
const version = '1'
/** Not a JSON type: a reader without this codec must not take the reference for the data. */
const contentType = 'application/vnd.ackord.claim-check'

/**
 * A codec that stores the data of large messages in an object store; the message carries a reference with size and SHA-256, which the reader verifies.
 *
 * The key of an object is made of the hour (UTC), source, id and hash: if the same data of a message is stored again within the hour, it replaces its object; later it is stored as
 * another one. Objects are not deleted when a message was read, because other consumers may read it, too: delete them by age with `collectObjects()`.
 *
 * Put it behind `encrypted()`: `[encrypted({ keys }), claimCheck({ store })]` stores encrypted objects, the other order plain ones.
 */
export function claimCheck(options: ClaimCheckOptions): PayloadCodec {
  const { store, above = 262_144, maxBytes = 104_857_600, keyPrefix = '', runtime = systemRuntime, ...unknown } = options
  rejectUnknownOptions('claimCheck()', unknown)
  checkFunction('store.put', store?.put)
  checkFunction('store.get', store?.get)
  checkCount('above', above, { min: 0 })
  checkCount('maxBytes', maxBytes)
  if (maxBytes < above) throw new InvalidOptionError('maxBytes', `must not be less than above, which is ${above}; it is ${maxBytes}.`)
  if (!isObjectKey(claimKey(keyPrefix, 0, claimName('', '', '0'.repeat(64))))) {
    throw new InvalidOptionError('keyPrefix', "must be a short string of letters, digits and '-_./', such as 'orders/'.")
  }

  async function checkIn(message: RawMessage, signal: AbortSignal): Promise<RawMessage> {
    const { data, id, source, dataContentType: datacontenttype } = message
    if (!id || !source) throw invalidMessageError(message, 'needs an id and a source: the key of its data is made of them')
    const sha256 = createHash('sha256').update(data).digest('hex')
    const key = claimKey(keyPrefix, runtime.now(), claimName(source, id, sha256))
    const reference = writeReference(message, { key, size: data.byteLength, sha256, datacontenttype })
    await store.put(key, data, { signal })
    return message.copy(reference).withAttributes({ datacontenttype: contentType, [marker]: version })
  }

  async function checkOut(message: RawMessage, signal: AbortSignal): Promise<RawMessage> {
    const reference = readReference(message)
    const { key, size, sha256, datacontenttype } = reference
    // The store is not asked for a key that the sender of this very message would not have chosen.
    if (!key.endsWith(claimName(message.source ?? '', message.id ?? '', sha256))) {
      throw invalid(message, 'the key of its reference was not made of its source, id and hash')
    }
    if (size > maxBytes) throw invalid(message, `it refers to ${size} bytes, and maxBytes is ${maxBytes}`)
    const bytes = await store.get(key, { signal, maxBytes: size })
    if (bytes === undefined) throw missing(message, key)
    if (bytes.byteLength !== size) throw invalid(message, `the object '${key}' has ${bytes.byteLength} bytes instead of ${size}`)
    if (createHash('sha256').update(bytes).digest('hex') !== sha256) throw invalid(message, `the object '${key}' has another SHA-256`)
    return message.copy(bytes).withAttributes({ datacontenttype, [marker]: undefined })
  }

  return {
    encode(message, call) {
      if (message.attributes[marker] !== undefined) throw invalidMessageError(message, `has the attribute '${marker}' already`)
      if (message.data.byteLength <= above) return message
      if (message.data.byteLength > maxBytes) throw tooLarge(message, maxBytes)
      return checkIn(message, call.signal)
    },
    decode(message, call) {
      const found = message.attributes[marker]
      if (found === undefined) return message
      if (String(found) !== version) throw invalid(message, 'its reference has a version that this release cannot read')
      return checkOut(message, call.signal)
    },
  }
}

function missing(message: RawMessage, key: string): AckordError {
  const text = `The data of ${describeMessage(message)} is not in the object store, under '${key}'. It was deleted too early, or the store is another one than that of the sender.`
  return new AckordError('ACKORD_PAYLOAD_MISSING', text, { retryable: false })
}

function invalid(message: RawMessage, problem: string): AckordError {
  return new AckordError('ACKORD_PAYLOAD_INVALID', `Cannot fetch the data of ${describeMessage(message)}: ${problem}.`, {
    retryable: false,
  })
}

function tooLarge(message: RawMessage, maxBytes: number): AckordError {
  const text = `Cannot store the data of ${describeMessage(message)}: it has ${message.data.byteLength} bytes, and maxBytes of claimCheck() is ${maxBytes}.`
  return new AckordError('ACKORD_INVALID_OUTPUT', text, { retryable: false })
}

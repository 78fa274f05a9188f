import { randomBytes } from 'node:crypto'
import { AckordError } from '../errors.ts'
import { describeMessage, invalidMessageError } from '../message/marshal.ts'
import type { RawMessage } from '../message/message.ts'
import { checkChoice, checkFunction, rejectUnknownOptions } from '../options.ts'
import type { PayloadCodec } from './codec.ts'
import { checkKeyId, checkKeyRing, type KeyAnswer, type KeyRing, keyOf, whenAnswered } from './key-ring.ts'
import { nonceLength, seal, tagLength, unseal } from './xaes-gcm.ts'

export interface EncryptedOptions {
  /** Such as `staticKeys({ current: '2026-11', keys })`. */
  readonly keys: KeyRing
  /**
   * The id of the key for a message, such as one key per person: `({ subject }) => subject`. It sees the marshalled message. Default, and if it returns nothing:
   * `keys.current`.
   */
  readonly keyFor?: ((message: RawMessage) => string | undefined) | undefined
  /**
   * How a received message that is not encrypted is treated. `accept`: it is handled, so that encryption can be introduced while there are plain messages.
   * `reject`: it is rejected with `ACKORD_PAYLOAD_INVALID`; without this, everyone who can write to the broker can send messages without a key. Default: `accept`.
   */
  readonly plainText?: 'accept' | 'reject' | undefined
}

/** Marks an encrypted message. Its value is the version of the format. */
const marker = 'ackordencrypted'
const version = 1
const contentType = 'application/vnd.ackord.encrypted'

/**
 * A codec that encrypts the data of messages with AES-256-GCM, and authenticates `id`, `source`, `type` and the id of the key together with it: a message whose data was
 * changed, or copied from another message, is rejected. Attributes are not encrypted.
 *
 * The format, version 1: a byte for the version, a byte for the length of the key id, the key id in UTF-8, a random nonce of 24 bytes, the cipher text, and a tag of 16
 * bytes (XAES-256-GCM). The plain text is two bytes for the length of the content type, the content type, and the data.
 */
export function encrypted(options: EncryptedOptions): PayloadCodec {
  const { keys, keyFor, plainText = 'accept', ...unknown } = options
  rejectUnknownOptions('encrypted()', unknown)
  checkKeyRing(keys)
  if (keyFor !== undefined) checkFunction('keyFor', keyFor)
  checkChoice('plainText', plainText, ['accept', 'reject'])

  return {
    encode(message, call) {
      if (message.attributes[marker] !== undefined) throw invalidMessageError(message, `has the attribute '${marker}' already`)
      const { id, source, type } = message
      if (!id || !source || !type) throw invalidMessageError(message, 'needs an id, a source and a type to be encrypted')
      const keyId = checkKeyId(keyFor?.(message) ?? keys.current)
      const answer = keys.getOrCreate === undefined ? keys.get(keyId, call) : keys.getOrCreate(keyId, call)
      // Another instance may have the key, or this one later: it is not the fault of the message.
      const write = (found: KeyAnswer) => encrypt(message, keyId, keyOf(found, keyId, describeMessage(message), { retryable: true }))
      return whenAnswered(answer, write)
    },

    decode(message, call) {
      const found = message.attributes[marker]
      if (found === undefined) {
        if (plainText === 'accept') return message
        throw invalid(message, "it is not encrypted, and encrypted() has plainText: 'reject'")
      }
      const sealed = readSealed(message)
      const { keyId } = sealed
      const answer = keys.get(keyId, call)
      const read = (key: KeyAnswer) => decrypt(message, sealed, keyOf(key, keyId, describeMessage(message), { retryable: false }))
      return whenAnswered(answer, read)
    },
  }
}

interface Sealed {
  readonly keyId: string
  readonly nonce: Uint8Array
  /** The cipher text and its tag. */
  readonly text: Uint8Array
}

const utf8 = new TextEncoder()
// A byte order mark belongs to the text.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function encrypt(message: RawMessage, keyId: string, key: Uint8Array): RawMessage {
  const { data, dataContentType = '' } = message
  const name = utf8.encode(keyId)
  const type = utf8.encode(dataContentType)
  if (type.byteLength > 0xffff) throw invalidMessageError(message, 'has a content type that is too long to be encrypted')
  const nonce = randomBytes(nonceLength)
  const start = 2 + name.byteLength + nonceLength
  const bytes = new Uint8Array(start + 2 + type.byteLength + data.byteLength + tagLength)
  bytes.set([version, name.byteLength])
  bytes.set(name, 2)
  bytes.set(nonce, 2 + name.byteLength)
  const prefix = new Uint8Array([type.byteLength >> 8, type.byteLength & 0xff, ...type])
  seal(key, nonce, associatedData(message, keyId), [prefix, data], bytes.subarray(start))
  return message.copy(bytes).withAttributes({ datacontenttype: contentType, [marker]: String(version) })
}

function decrypt(message: RawMessage, { keyId, nonce, text }: Sealed, key: Uint8Array): RawMessage {
  const plain = unseal(key, nonce, associatedData(message, keyId), text)
  // The cause is not known more exactly, and a sender must not learn it.
  if (plain === undefined)
    throw invalid(message, `its data, id, source, type or key id was changed after it was encrypted, or '${keyId}' is another key here`)
  const [high = 0, low = 0] = plain
  const start = 2 + high * 256 + low
  if (plain.byteLength < start) throw invalid(message, 'its content type is incomplete')
  const datacontenttype = start === 2 ? undefined : decoder.decode(plain.subarray(2, start))
  return message.copy(plain.subarray(start)).withAttributes({ datacontenttype, [marker]: undefined })
}

/** Throws unless the data has the format of an encrypted message: it may come from anyone who can write to the broker. */
function readSealed(message: RawMessage): Sealed {
  const { data } = message
  const [found, length = 0] = data
  if (found !== version) throw invalid(message, 'its format has a version that this release cannot read')
  const start = 2 + length
  if (length === 0 || data.byteLength < start + nonceLength + tagLength) throw invalid(message, 'it is incomplete')
  return {
    keyId: readKeyId(message, data.subarray(2, start)),
    nonce: data.subarray(start, start + nonceLength),
    text: data.subarray(start + nonceLength),
  }
}

function readKeyId(message: RawMessage, bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes)
  } catch {
    throw invalid(message, 'the id of its key is not UTF-8')
  }
}

/** Only what no broker, trace or dead letter changes. A JSON array of strings is unambiguous. */
function associatedData({ id = '', source = '', type = '' }: RawMessage, keyId: string): Uint8Array {
  return utf8.encode(JSON.stringify(['ackord.encrypted', version, keyId, id, source, type]))
}

function invalid(message: RawMessage, problem: string): AckordError {
  return new AckordError('ACKORD_PAYLOAD_INVALID', `Cannot decrypt ${describeMessage(message)}: ${problem}.`, { retryable: false })
}

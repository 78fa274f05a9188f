import { createCipheriv, createDecipheriv } from 'node:crypto'

// XAES-256-GCM (https://c2sp.org/XAES-256-GCM): AES-256-GCM with a key that is derived from the first half of a nonce of 24 bytes. Random nonces of GCM itself have
// 12 bytes, and a key must not encrypt more than 2^32 messages with them; here it may encrypt 2^80.

export const nonceLength = 24
export const tagLength = 16

const block = 16
const half = 12

/** Encrypts the parts as one text. Returns the cipher text, followed by the tag. `into` has room for both. */
export function seal(key: Uint8Array, nonce: Uint8Array, associated: Uint8Array, parts: readonly Uint8Array[], into: Uint8Array): void {
  const cipher = createCipheriv('aes-256-gcm', deriveKey(key, nonce), nonce.subarray(half), { authTagLength: tagLength })
  cipher.setAAD(associated)
  let position = 0
  for (const bytes of [...parts.map((part) => cipher.update(part)), cipher.final(), cipher.getAuthTag()]) {
    into.set(bytes, position)
    position += bytes.byteLength
  }
}

/** Decrypts a cipher text with its tag. `undefined` if it was changed, or belongs to another key, nonce or associated data. */
export function unseal(key: Uint8Array, nonce: Uint8Array, associated: Uint8Array, sealed: Uint8Array): Uint8Array | undefined {
  const end = sealed.byteLength - tagLength
  if (end < 0) return undefined
  const decipher = createDecipheriv('aes-256-gcm', deriveKey(key, nonce), nonce.subarray(half), { authTagLength: tagLength })
  decipher.setAAD(associated)
  decipher.setAuthTag(sealed.subarray(end))
  const text = decipher.update(sealed.subarray(0, end))
  try {
    decipher.final()
  } catch {
    return undefined
  }
  return new Uint8Array(text.buffer, text.byteOffset, text.byteLength)
}

/** The key derivation of NIST SP 800-108r1 with CMAC, for two blocks. */
function deriveKey(key: Uint8Array, nonce: Uint8Array): Uint8Array {
  const subkey = doubled(encryptBlocks(key, new Uint8Array(block)))
  const blocks = new Uint8Array(2 * block)
  for (const counter of [1, 2]) {
    const start = (counter - 1) * block
    blocks.set([0, counter, 0x58, 0], start)
    blocks.set(nonce.subarray(0, half), start + 4)
    for (let index = 0; index < block; index += 1) blocks[start + index] = (blocks[start + index] ?? 0) ^ (subkey[index] ?? 0)
  }
  return encryptBlocks(key, blocks)
}

function encryptBlocks(key: Uint8Array, blocks: Uint8Array): Uint8Array {
  const cipher = createCipheriv('aes-256-ecb', key, null)
  cipher.setAutoPadding(false)
  return cipher.update(blocks)
}

/** Multiplies by x in GF(2^128), as CMAC does for its first subkey. */
function doubled(bytes: Uint8Array): Uint8Array {
  const result = new Uint8Array(block)
  for (let index = 0; index < block; index += 1) result[index] = ((bytes[index] ?? 0) << 1) | ((bytes[index + 1] ?? 0) >> 7)
  if (((bytes[0] ?? 0) & 0x80) !== 0) result[block - 1] = (result[block - 1] ?? 0) ^ 0x87
  return result
}

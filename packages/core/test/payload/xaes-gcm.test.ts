import { createHash, randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { nonceLength, seal, tagLength, unseal } from '../../src/payload/xaes-gcm.ts'

const utf8 = (text: string) => new TextEncoder().encode(text)
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

function sealed(key: Uint8Array, nonce: Uint8Array, associated: Uint8Array, ...parts: readonly Uint8Array[]): Uint8Array {
  const into = new Uint8Array(parts.reduce((sum, part) => sum + part.byteLength, tagLength))
  seal(key, nonce, associated, parts, into)
  return into
}

describe('XAES-256-GCM', () => {
  // https://c2sp.org/XAES-256-GCM: the two vectors take both branches of the derivation of the subkey.
  it.each([
    { byte: 1, associated: '', expected: 'ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271' },
    { byte: 3, associated: 'c2sp.org/XAES-256-GCM', expected: '986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d' },
  ])('has the result of the specification for a key of bytes $byte', ({ byte, associated, expected }) => {
    const key = new Uint8Array(32).fill(byte)
    const nonce = utf8('ABCDEFGHIJKLMNOPQRSTUVWX')
    const text = sealed(key, nonce, utf8(associated), utf8('XAES-256-GCM'))
    expect(hex(text)).toBe(expected)
    expect(unseal(key, nonce, utf8(associated), text)).toEqual(utf8('XAES-256-GCM'))
  })

  it('has the accumulated result of the specification for 10,000 random inputs', () => {
    // Every input is a part of one stream; the longest possible stream is not known before.
    const stream = createHash('shake128', { outputLength: 10_000 * (32 + nonceLength + 2 + 2 * 255) }).digest()
    let position = 0
    const read = (length: number) => {
      position += length
      return stream.subarray(position - length, position)
    }
    const results = createHash('shake128', { outputLength: 32 })
    let undone = 0
    for (let round = 0; round < 10_000; round += 1) {
      const key = read(32)
      const nonce = read(nonceLength)
      const text = read(read(1)[0] ?? 0)
      const associated = read(read(1)[0] ?? 0)
      const result = sealed(key, nonce, associated, text)
      results.update(result)
      if (Buffer.compare(unseal(key, nonce, associated, result) ?? Buffer.from('none'), text) !== 0) undone += 1
    }
    expect(results.digest('hex')).toBe('e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939')
    expect(undone).toBe(0)
  })

  it('encrypts parts as one text', () => {
    const [key, nonce, associated] = [randomBytes(32), randomBytes(nonceLength), utf8('associated')]
    const whole = sealed(key, nonce, associated, utf8('one text of several parts'))
    expect(sealed(key, nonce, associated, utf8('one text'), utf8(''), utf8(' of several parts'))).toEqual(whole)
  })

  it('detects a change of any byte, and of the length', () => {
    const [key, nonce, associated] = [randomBytes(32), randomBytes(nonceLength), utf8('associated')]
    const text = sealed(key, nonce, associated, utf8('a text of 25 characters  '))
    const changed = (bytes: Uint8Array, index: number) => bytes.map((byte, at) => (at === index ? byte ^ 1 : byte))
    const accepted: string[] = []
    const attempt = (name: string, result: Uint8Array | undefined) => {
      if (result !== undefined) accepted.push(name)
    }
    for (const index of key.keys()) attempt(`key ${index}`, unseal(changed(key, index), nonce, associated, text))
    for (const index of nonce.keys()) attempt(`nonce ${index}`, unseal(key, changed(nonce, index), associated, text))
    for (const index of associated.keys()) attempt(`associated ${index}`, unseal(key, nonce, changed(associated, index), text))
    for (const index of text.keys()) attempt(`text ${index}`, unseal(key, nonce, associated, changed(text, index)))
    for (let length = 0; length < text.byteLength; length += 1)
      attempt(`length ${length}`, unseal(key, nonce, associated, text.subarray(0, length)))
    attempt('a longer text', unseal(key, nonce, associated, Buffer.concat([text, Buffer.alloc(1)])))
    expect(accepted).toEqual([])
    expect(unseal(key, nonce, associated, text)).toEqual(utf8('a text of 25 characters  '))
  })
})

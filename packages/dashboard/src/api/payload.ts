import { invalid } from '../http/api-failure.ts'
import { readChoice, readFields } from './read-input.ts'
import type { Payload } from './types.ts'

/** Bytes of a payload that a detail contains. */
const maxShown = 64 * 1024

/** The beginning of a payload, in the form that people can read. */
export function showPayload(data: Uint8Array, contentType: string | undefined): Payload {
  const truncated = data.byteLength > maxShown
  const shown = data.subarray(0, maxShown)
  const text = textOf(data)
  if (text === undefined) return { kind: 'binary', content: toBase64(shown), truncated }
  const kind = isJson(text, contentType) ? 'json' : 'text'
  // As a stream: half of a character at the end is omitted.
  return { kind, content: truncated ? utf8().decode(shown, { stream: true }) : text, truncated }
}

/** The bytes of an edited payload. */
export function decodePayload(value: unknown): Uint8Array {
  const { kind, content } = readFields(value, 'edit.payload', ['kind', 'content'])
  const chosen = readChoice(kind, 'edit.payload.kind', ['json', 'text', 'binary'])
  if (typeof content !== 'string') throw invalid('edit.payload.content must be a string.')
  if (chosen === 'binary') return fromBase64(content)
  if (!content.isWellFormed()) throw invalid('edit.payload.content must be well-formed Unicode.')
  if (chosen === 'json' && !isParsable(content)) throw invalid('edit.payload.content is not valid JSON.')
  return new TextEncoder().encode(content)
}

/** Control characters other than tabs and line breaks. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: it is what is looked for.
const controlCharacters = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/

function textOf(data: Uint8Array): string | undefined {
  try {
    const text = utf8().decode(data)
    return controlCharacters.test(text) ? undefined : text
  } catch {
    return undefined
  }
}

function utf8() {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
}

function isJson(text: string, contentType: string | undefined): boolean {
  const type = contentType?.split(';', 1)[0]?.trim().toLowerCase()
  return (type === undefined || /[/+]json$/.test(type)) && isParsable(text)
}

function isParsable(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

export function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
}

function fromBase64(text: string): Uint8Array {
  const bytes = Buffer.from(text, 'base64')
  // Node ignores characters that are not base64.
  if (bytes.toString('base64').replace(/=+$/, '') !== text.replace(/=+$/, '')) throw invalid('edit.payload.content is not valid base64.')
  return new Uint8Array(bytes)
}

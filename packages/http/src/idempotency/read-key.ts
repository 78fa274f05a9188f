/** Characters that can be seen: no spaces, no control characters. */
const visible = /^[\x21-\x7e]{1,255}$/
const quoted = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/

/**
 * The key in the value of an `Idempotency-Key` header; `undefined` if it has none. The draft wants a string of Structured Fields (RFC 8941), `"k-1"`;
 * most clients send it bare. Both are the same key.
 */
export function readKey(value: string): string | undefined {
  const trimmed = value.trim()
  const key = trimmed.startsWith('"') ? quoted.exec(trimmed)?.[1]?.replaceAll(/\\(["\\])/g, '$1') : trimmed
  return key !== undefined && visible.test(key) ? key : undefined
}

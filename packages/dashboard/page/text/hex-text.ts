/** Bytes as lines of an offset, sixteen bytes and their printable ASCII characters. */
export function hexLines(bytes: Uint8Array): string {
  const lines: string[] = []
  for (let offset = 0; offset < bytes.length; offset += 16) {
    const line = [...bytes.subarray(offset, offset + 16)]
    const hex = line.map((byte) => byte.toString(16).padStart(2, '0')).join(' ')
    const ascii = line.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.')).join('')
    lines.push(`${offset.toString(16).padStart(8, '0')}  ${hex.padEnd(47)}  ${ascii}`)
  }
  return lines.join('\n')
}

/** The bytes of a base64 text. A text that was cut off within a group of four characters loses the rest of it. */
export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text.slice(0, text.length - (text.length % 4))), (character) => character.charCodeAt(0))
}

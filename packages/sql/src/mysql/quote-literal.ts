/** A text in a statement as its bytes, whatever the connection's character set and its setting for backslashes. */
export function quoteLiteral(text: string): string {
  return `X'${Buffer.from(text).toString('hex')}'`
}

/** A text in a statement, whatever the server's setting for backslashes. For names that were checked; values of messages are parameters. */
export function quoteLiteral(text: string): string {
  return `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`
}

export interface WrapOptions {
  /** The number of columns of the terminal; `Infinity` does not wrap. */
  readonly columns: number
  /** In front of the first line. */
  readonly first?: string | undefined
  /** In front of the other lines. Default: as many spaces as `first` has. */
  readonly rest?: string | undefined
}

/** Breaks a text between words, so that no line is longer than the terminal is wide; a longer word, such as a URL, has a line of its own. */
export function wrapWords(text: string, { columns, first = '', rest = ' '.repeat(first.length) }: WrapOptions): string {
  const lines: string[] = []
  let line = first
  let isEmpty = true
  for (const word of text.split(' ')) {
    if (!isEmpty && line.length + 1 + word.length > columns) {
      lines.push(line)
      line = rest
      isEmpty = true
    }
    line += isEmpty ? word : ` ${word}`
    isEmpty = false
  }
  return [...lines, line].join('\n')
}

// The clients have classes of their own, and before 7.0 an error inside of a script comes in another one: the word is all that can be relied on.

/** Whether the server said one of these words, such as `OOM` or `NOGROUP`. */
export function says(error: unknown, ...words: readonly string[]): boolean {
  const text = error instanceof Error ? error.message : String(error)
  return words.some((word) => new RegExp(`\\b${word}\\b`).test(text))
}

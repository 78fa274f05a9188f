import type { RecordFailure } from './outbox-admin.ts'

// How stores keep the last errors of a record: as one text, a line per error, the latest last. A line is the milliseconds since the epoch, a blank, and the error.

const maxFailures = 10
const maxLineLength = 400
/** Characters that a store keeps at the end of the text. The first line may be incomplete then, and is not read. */
export const maxHistoryLength: number = maxFailures * (maxLineLength + 1)

/** The error as it is in a line. The store puts the time before it. */
export function historyLine(error: string): string {
  return error.replaceAll(/\s+/g, ' ').slice(0, maxLineLength - 20)
}

/** The latest first. */
export function readHistory(text: string | undefined): readonly RecordFailure[] {
  if (text === undefined || text === '') return []
  const whole = text.length < maxHistoryLength ? text : text.slice(text.indexOf('\n') + 1)
  const lines = whole.split('\n').flatMap((line) => {
    const [, at, error = ''] = /^(\d{12,14}) (.*)$/.exec(line) ?? []
    return at === undefined ? [] : [{ at: Number(at), error }]
  })
  return lines.slice(-maxFailures).reverse()
}

/** For stores that build the text themselves. */
export function addToHistory(text: string | undefined, at: number, error: string): string {
  const line = `${at} ${historyLine(error)}`
  return (text === undefined || text === '' ? line : `${text}\n${line}`).slice(-maxHistoryLength)
}

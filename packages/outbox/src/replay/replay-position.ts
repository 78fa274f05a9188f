import { InvalidOptionError } from '@ackord/core'

/** How far a replay is: the records behind the cursor, without those up to `done`. */
export interface Position {
  /** The `next` of a page of the store. `undefined`: the first page. */
  readonly after: string | undefined
  /** The id of the last record that is done. `undefined`: none of the page is. */
  readonly done: string | undefined
}

export const start: Position = { after: undefined, done: undefined }

/** As one word, which needs no quotes in a shell, whatever cursors a store has. */
export function writePosition({ after, done }: Position): string {
  return Buffer.from(JSON.stringify([after ?? null, done ?? null])).toString('base64url')
}

export function readPosition(text: string): Position {
  try {
    const [after, done, ...more] = JSON.parse(Buffer.from(text, 'base64url').toString()) as readonly unknown[]
    if (isPart(after) && isPart(done) && more.length === 0) return { after: after ?? undefined, done: done ?? undefined }
  } catch {
    // Not base64, not JSON, or not a list.
  }
  throw invalidPosition(text)
}

export function invalidPosition(text: string): InvalidOptionError {
  return new InvalidOptionError(
    'position',
    `must be one that a replay of this store has reported, or omitted; it is ${JSON.stringify(text)}.`,
  )
}

function isPart(part: unknown): part is string | null {
  return part === null || typeof part === 'string'
}

import { abortable } from '../../async/abort.ts'
import type { RawMessage } from '../../message/message.ts'
import { readDeadLetter } from '../read-dead-letter.ts'
import type { DeadLetterQueue, StoredLetter } from './dead-letter-queue.ts'

/** A letter as operators see it. */
export interface Letter {
  readonly stored: StoredLetter
  /** The message as it was rejected. */
  readonly message: RawMessage
  /** The id of the message; its position if it has none. */
  readonly id: string
  /** The destination that it came from, or was to be published to. */
  readonly destination: string | undefined
  readonly reason: string | undefined
  readonly code: string | undefined
  /** When it was rejected, in milliseconds since the epoch. */
  readonly failedAt: number | undefined
  /** Why the letter is not the whole message. */
  readonly problem: string | undefined
  /** Whether it can be replayed: `named` if only on request, by its id or with a destination. */
  readonly replayable: 'yes' | 'named' | 'no'
}

function letterOf(stored: StoredLetter): Letter {
  const { message, missing, destination = stored.origin, reason = stored.reason, code, time } = readDeadLetter(stored.message)
  const failedAt = Date.parse(time ?? '')
  return {
    stored,
    message,
    id: message.id ?? stored.position,
    destination,
    reason,
    code,
    failedAt: Number.isNaN(failedAt) ? undefined : failedAt,
    problem: stored.problem ?? (missing === undefined ? undefined : incomplete[missing]),
    replayable: missing === 'data' ? 'no' : missing === undefined && stored.problem === undefined ? 'yes' : 'named',
  }
}

const incomplete = {
  attributes: 'the dead letter accepted the message only without some of its attributes',
  data: 'the letter does not have all of the data of the message',
} as const

/** Which letters are meant. All criteria must match. */
export interface LetterFilter {
  /** Ids of letters, as in {@link Letter.id}. Positions name only letters whose messages have no id: senders choose ids, and one could look like a position. */
  readonly ids?: ReadonlySet<string> | undefined
  readonly type?: string | undefined
  readonly source?: string | undefined
  /** Milliseconds since the epoch. */
  readonly since?: number | undefined
  readonly until?: number | undefined
}

/** A letter without a time does not match a filter by time. */
function matches({ ids, type, source, since = -Infinity, until = Infinity }: LetterFilter, letter: Letter): boolean {
  const { message, failedAt } = letter
  const inTime = failedAt === undefined ? since === -Infinity && until === Infinity : failedAt >= since && failedAt <= until
  return (
    inTime &&
    (ids === undefined || ids.has(letter.id)) &&
    (type === undefined || type === message.type) &&
    (source === undefined || source === message.source)
  )
}

/** The letters that match, oldest first, at most `limit` of them. Ends when the signal is aborted, even if the broker does not answer. */
export async function* matchingLetters(
  queue: DeadLetterQueue,
  filter: LetterFilter,
  { limit, signal }: { readonly limit: number; readonly signal: AbortSignal },
): AsyncGenerator<Letter, void, void> {
  const reading = queue.letters(signal)
  for (let count = 0; count < limit; ) {
    const stored = await nextOf(reading, signal)
    if (stored === undefined) return
    const letter = letterOf(stored)
    if (!matches(filter, letter)) continue
    count += 1
    yield letter
  }
}

async function nextOf(reading: AsyncGenerator<StoredLetter, void, void>, signal: AbortSignal): Promise<StoredLetter | undefined> {
  const asking = reading.next()
  try {
    const { done, value } = await abortable(asking, signal)
    return done === true ? undefined : value
  } catch (error) {
    if (!signal.aborted) throw error
    asking.catch(() => {})
    return undefined
  }
}

import { AckordError, type Runtime } from '@ackord/core'
import type { Reply } from '../client/port.ts'

type OnLate = (answer: Promise<Reply>) => void

interface ClaimCall {
  readonly lease: number
  /** The most bytes that the whole claim may take. */
  readonly claimBytes: number
  /** The most bytes that this call asks for. */
  readonly maxBytes: number
  /** Sends the call. */
  readonly send: (onLate: OnLate) => Promise<Reply>
  /** How many bytes of records a reply has. */
  readonly bytesOf: (reply: Reply) => number
  /** Releases the records of a late reply: no caller waits for them any more. */
  readonly release: (reply: Reply) => Promise<void>
}

/** The limit of a claim without one after a late answer, before it is halved. */
const largest = 16 * 1024 * 1024

/**
 * Keeps claims that miss the deadline from piling up at the server, and from using up the attempts of records that were never received. While a claim is
 * unanswered, no other is sent to the same source; the records of a late answer are released; and each late answer halves the bytes of the next claims, so
 * that over a slow connection at least one record at a time arrives within the deadline. Answers that are at least half full double them again: most
 * answers are empty, and say nothing about the connection.
 */
export class ClaimPace {
  readonly #runtime: Runtime
  /** Until when a source is not asked again, by the monotonic clock. */
  readonly #unanswered = new Map<unknown, number>()
  #cap = Infinity

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /** The most bytes to ask for now. */
  limit(maxBytes: number): number {
    return Math.min(maxBytes, this.#cap)
  }

  async ask(source: unknown, { lease, claimBytes, maxBytes, send, bytesOf, release }: ClaimCall): Promise<Reply> {
    const until = this.#unanswered.get(source)
    if (until !== undefined && this.#runtime.monotonic() < until) throw stillUnanswered()
    this.#unanswered.delete(source)
    const onLate: OnLate = (answer) => {
      this.#cap = Math.max(1, Math.min(maxBytes, largest) / 2)
      // Its records are free again when their lease has expired, even if the client never settles the promise.
      const end = this.#runtime.monotonic() + lease
      this.#unanswered.set(source, end)
      const answered = () => {
        if (this.#unanswered.get(source) === end) this.#unanswered.delete(source)
      }
      // If they cannot be released either, their lease expires.
      answer.then(release).then(answered, answered)
    }
    const reply = await send(onLate)
    const bytes = bytesOf(reply)
    if (bytes > 0 && bytes >= maxBytes / 2) this.#raise(2 * claimBytes)
    return reply
  }

  #raise(bytes: number): void {
    this.#cap = bytes > largest ? Infinity : Math.max(this.#cap, bytes)
  }
}

function stillUnanswered(): AckordError {
  const text =
    'Redis has not answered an earlier claim of this outbox yet, so no other one is sent. Check the connection, or set a longer deadline.'
  return new AckordError('ACKORD_REDIS_UNANSWERED', text)
}

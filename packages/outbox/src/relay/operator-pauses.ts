import type { Runtime } from '@ackord/core'
import { withTimeLimit } from '@ackord/core/internal'
import { readPauses } from '../store/note-administration.ts'
import type { OutboxNotes } from '../store/notes.ts'

/** Milliseconds for which the relay trusts what it has read: a pause takes effect within this time. */
const freshness = 1000
/** Milliseconds. A store that does not answer must not delay the claims, which have a time limit of their own. */
const timeLimit = 1000
/** Milliseconds before a store that failed, such as one whose tables are of an older version, is asked again. */
const afterFailure = 10_000

/** The destinations that operators have paused, as a relay knows them: read with its claims, at most once per second. */
export class OperatorPauses {
  readonly #notes: OutboxNotes | undefined
  readonly #runtime: Runtime
  #destinations: readonly string[] = []
  #readAgainAt = -Infinity

  constructor(notes: OutboxNotes | undefined, runtime: Runtime) {
    this.#notes = notes
    this.#runtime = runtime
  }

  get destinations(): readonly string[] {
    return this.#destinations
  }

  /** Never rejects: if the store cannot be read, the last known pauses stay in effect. */
  async refresh(): Promise<void> {
    const notes = this.#notes
    const now = this.#runtime.monotonic()
    if (notes === undefined || now < this.#readAgainAt) return
    this.#readAgainAt = now + freshness
    try {
      const pauses = await withTimeLimit(this.#runtime, timeLimit, late, () => readPauses(notes))
      this.#destinations = pauses.map(({ destination }) => destination)
    } catch {
      this.#readAgainAt = now + afterFailure
    }
  }
}

function late(): Error {
  return new Error(`The store did not say within ${timeLimit} ms which destinations are paused.`)
}

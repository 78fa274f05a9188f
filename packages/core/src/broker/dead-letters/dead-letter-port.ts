import { answerTimeout, settledWithin } from '../../async/abort.ts'
import type { RawMessage } from '../../message/message.ts'
import type { Logger } from '../../ports/observability.ts'
import { PartPorts } from '../../ports/part-ports.ts'
import { systemRuntime } from '../../ports/runtime.ts'
import type { DeadLetterQueue } from './dead-letter-queue.ts'
import { type Letter, matchingLetters } from './letters.ts'
import { replay, targetOf } from './replay.ts'

/** A message at a dead-letter destination. */
export interface DeadLetter {
  /** Where it is, for people. It stands for the id of a message that has none. */
  readonly position: string
  /** The message as it was rejected. */
  readonly message: RawMessage
  /** The destination that it came from. */
  readonly origin: string | undefined
  readonly reason: string | undefined
  /** When it was rejected: milliseconds since the epoch. */
  readonly failedAt: number | undefined
  /** Why the letter is not the whole message. */
  readonly problem: string | undefined
}

interface LetterOptions {
  readonly limit: number
  /** Aborted when the client has disconnected. */
  readonly signal: AbortSignal
}

/** What a replay would do. */
export interface ReplayPreview {
  /** How many letters would be published, and where. */
  readonly count: number
  readonly destinations: readonly string[]
  /** How many would stay, because they are incomplete or do not say where they came from. */
  readonly skipped: number
  /** Whether there are more letters than were looked at. */
  readonly capped: boolean
}

/** The dead letters of a destination, as the dashboard needs them. An id is that of a message, or the position of a letter whose message has none. */
export interface DeadLetterPort {
  /** The oldest letters, at most `limit`, and how many there are in all. Leaves them where they are. */
  list(options: LetterOptions): Promise<{ readonly letters: readonly DeadLetter[]; readonly count: number }>
  /** The letters with this id, at most `limit`. Leaves them where they are. */
  find(id: string, options: LetterOptions): Promise<readonly DeadLetter[]>
  /** What `replay` would do, of the oldest letters, at most `limit`. */
  preview(ids: readonly string[] | undefined, options: LetterOptions): Promise<ReplayPreview>
  /**
   * Publishes letters to the destinations that they came from, and removes each one after the broker has confirmed its message. `ids`: which ones; `undefined`:
   * all. An abort ends it after the letters that are being published, without an error. Resolves to the number of replayed letters.
   */
  replay(
    ids: readonly string[] | undefined,
    options: {
      readonly signal: AbortSignal
      /** To be called with the number of replayed letters so far. */
      readonly onProgress: (replayed: number) => void
    },
  ): Promise<number>
}

/** The dead letters of a destination: for the dashboard, and to be looked through by other code. */
export interface DeadLetters extends DeadLetterPort {
  /** Opens the destination, to look through it once. Rejects if it does not exist. The caller closes it. */
  open(): Promise<DeadLetterQueue>
}

export interface DeadLetterPortOptions {
  /** Opens the dead-letter destination, to look through it once. */
  readonly open: () => Promise<DeadLetterQueue>
  /** Receives letters that were not replayed. Default: `consoleLogger`. */
  readonly logger?: Logger | undefined
  /** Masks passwords in a text, such as the error of a driver. Default: texts stay as they are. */
  readonly mask?: ((text: string) => string) | undefined
}

/** Letters that are looked through for some of them: at RabbitMQ each look is a delivery. */
const maxLooked = 1000

/** The dead letters of a destination, looked through with a queue of its own for each call. */
export function deadLetterPort({ open, logger: givenLogger, mask = (text) => text }: DeadLetterPortOptions): DeadLetters {
  const { logger } = new PartPorts({ logger: givenLogger })
  let last: Promise<unknown> = Promise.resolve()

  /** One at a time: RabbitMQ hides the letters that somebody looks at from everybody else, and Kafka gives a partition to one consumer. */
  function withQueue<T>(work: (queue: DeadLetterQueue) => Promise<T>): Promise<T> {
    const turn = last.then(async () => {
      const queue = await open()
      try {
        return await work(queue)
      } finally {
        await settledWithin(systemRuntime, answerTimeout, queue[Symbol.asyncDispose]())
      }
    })
    // The caller gets the error; the next one only waits for its turn.
    last = turn.catch(() => {})
    return turn
  }

  function shown({ stored, message, destination, reason, failedAt, problem }: Letter): DeadLetter {
    const safe = (text: string | undefined) => (text === undefined ? undefined : mask(text))
    return { position: stored.position, message, origin: destination, reason: safe(reason), failedAt, problem: safe(problem) }
  }

  return {
    open,

    list: ({ limit, signal }) =>
      withQueue(async (queue) => {
        const letters: DeadLetter[] = []
        for await (const letter of matchingLetters(queue, {}, { limit, signal })) letters.push(shown(letter))
        return { letters, count: queue.count }
      }),

    find: (id, { limit, signal }) =>
      withQueue(async (queue) => {
        const letters: DeadLetter[] = []
        for await (const letter of matchingLetters(queue, {}, { limit: maxLooked, signal })) {
          if (letter.id === id) letters.push(shown(letter))
          if (letters.length >= limit) break
        }
        return letters
      }),

    preview: (ids, { limit, signal }) =>
      withQueue(async (queue) => {
        const wanted = ids === undefined ? undefined : new Set(ids)
        const destinations = new Set<string>()
        let [count, skipped] = [0, 0]
        for await (const letter of matchingLetters(queue, {}, { limit, signal })) {
          if (wanted !== undefined && !wanted.has(letter.id)) continue
          const target = targetOf(letter, { to: undefined, named: wanted !== undefined })
          if ('problem' in target) {
            skipped += 1
            continue
          }
          count += 1
          destinations.add(target.destination)
        }
        return { count, skipped, destinations: [...destinations].sort(), capped: wanted === undefined && queue.count > limit }
      }),

    replay: (ids, { signal, onProgress }) =>
      withQueue(async (queue) => {
        let whyFailed = ''
        const { replayed, failed } = await replay(queue, {
          filter: ids === undefined ? {} : { ids: new Set(ids) },
          limit: Infinity,
          signal,
          onFailure(letter, reason, kind) {
            if (kind === 'failed') whyFailed ||= reason
            logger.warn({ id: letter.id, position: letter.stored.position, reason }, 'A dead letter was not replayed.')
          },
          onProgress: (result) => onProgress(result.replayed),
        })
        onProgress(replayed)
        if (failed > 0)
          throw new Error(`${replayed} of ${replayed + failed} letters were replayed. The others stay where they are: ${mask(whyFailed)}`)
        return replayed
      }),
  }
}

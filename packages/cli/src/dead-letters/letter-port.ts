import type { DeadLetter, DeadLetterPort } from '@ackord/dashboard'
import { closeWithin } from '../lifecycle.ts'
import type { DeadLetterQueue } from './dead-letter-queue.ts'
import { type Letter, matchingLetters } from './letters.ts'
import { replay, targetOf } from './replay.ts'

export interface LetterPortOptions {
  /** Opens the dead-letter destination, to look through it once. */
  readonly open: () => Promise<DeadLetterQueue>
  /** Called with each letter that is not replayed, and the reason. */
  readonly onFailure: (letter: Letter, reason: string) => void
  /** Masks passwords in a text, such as the error of a driver. */
  readonly masked: (text: string) => string
}

/** Letters that are looked through for some of them: at RabbitMQ each look is a delivery. */
const maxLooked = 1000

/** The dead letters of a destination, for the dashboard. */
export function letterPort({ open, onFailure, masked }: LetterPortOptions): DeadLetterPort {
  let last: Promise<unknown> = Promise.resolve()

  /** One at a time: RabbitMQ hides the letters that somebody looks at from everybody else, and Kafka gives a partition to one consumer. */
  function withQueue<T>(work: (queue: DeadLetterQueue) => Promise<T>): Promise<T> {
    const turn = last.then(async () => {
      const queue = await open()
      try {
        return await work(queue)
      } finally {
        await closeWithin(() => queue[Symbol.asyncDispose]())
      }
    })
    // The caller gets the error; the next one only waits for its turn.
    last = turn.catch(() => {})
    return turn
  }

  function shown({ stored, message, destination, reason, failedAt, problem }: Letter): DeadLetter {
    const safe = (text: string | undefined) => (text === undefined ? undefined : masked(text))
    return { position: stored.position, message, origin: destination, reason: safe(reason), failedAt, problem: safe(problem) }
  }

  return {
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
            onFailure(letter, reason)
          },
          onProgress: (result) => onProgress(result.replayed),
        })
        onProgress(replayed)
        if (failed > 0)
          throw new Error(`${replayed} of ${replayed + failed} letters were replayed. The others stay where they are: ${masked(whyFailed)}`)
        return replayed
      }),
  }
}

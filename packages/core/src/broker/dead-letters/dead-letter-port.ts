import { abortable, answerTimeout, settledWithin, withTimeLimit } from '../../async/abort.ts'
import { AckordError } from '../../errors.ts'
import type { RawMessage } from '../../message/message.ts'
import type { Logger } from '../../ports/observability.ts'
import { PartPorts } from '../../ports/part-ports.ts'
import { type Runtime, systemRuntime } from '../../ports/runtime.ts'
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
  /** Aborted when the client has disconnected. The call then rejects with its reason. */
  readonly signal: AbortSignal
}

/** The effect that a replay would have. */
export interface ReplayPreview {
  /** How many letters would be published, and where. */
  readonly count: number
  readonly destinations: readonly string[]
  /** How many would stay, because they are incomplete or do not say where they came from. */
  readonly skipped: number
  /** Whether there are more letters than were looked at. */
  readonly capped: boolean
}

/**
 * The dead letters of a destination, as the dashboard needs them. An id is that of a message, or the position of a letter whose message has none. While a replay runs, all calls
 * reject with `ACKORD_REPLAY_RUNNING`. Calls wait for earlier ones; if too many wait, further ones reject with `ACKORD_DEAD_LETTERS_BUSY`.
 */
export interface DeadLetterPort {
  /** The oldest letters, at most `limit`, and how many there are in all. Leaves them where they are. */
  list(options: LetterOptions): Promise<{ readonly letters: readonly DeadLetter[]; readonly count: number }>
  /** The letters with this id, at most `limit`. Leaves them where they are. */
  find(id: string, options: LetterOptions): Promise<readonly DeadLetter[]>
  /** The effect that `replay` would have, computed from the oldest letters, at most `limit`. */
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
  /** Opens the dead-letter destination, to look through it once. It has 30 seconds; a destination that opens later is closed again. */
  readonly open: () => Promise<DeadLetterQueue>
  /** Receives letters that were not replayed. Default: `consoleLogger`. */
  readonly logger?: Logger | undefined
  /** Masks passwords in a text, such as the error of a driver. Default: texts stay as they are. */
  readonly mask?: ((text: string) => string) | undefined
  /** Clock and timers. Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** Letters that are looked through for some of them: at RabbitMQ each look is a delivery. */
const maxLooked = 1000
/** Milliseconds. */
const openTimeout = 30_000
/** Requests that wait behind the one that is served. */
const maxWaiting = 4

/** The dead letters of a destination, looked through with a queue of its own for each call. */
export function deadLetterPort(options: DeadLetterPortOptions): DeadLetters {
  const { open, logger: givenLogger, mask = (text) => text, runtime = systemRuntime } = options
  const { logger } = new PartPorts({ logger: givenLogger })
  /** By their limits: lists that are being made, for all callers that have asked for the same. */
  const lists = new Map<number, SharedList>()
  /** The oldest first. */
  const waiting = new Set<() => Promise<void>>()
  let isServing = false
  let isReplaying = false

  /**
   * Opens the queue for one request at a time: RabbitMQ hides the letters that one consumer has received from all others, and Kafka gives a partition to one consumer.
   * Rejects if the signal is aborted before the queue is open; from then on the work has to obey the signal.
   */
  function withQueue<T>(signal: AbortSignal, work: (queue: DeadLetterQueue) => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (waiting.size >= maxWaiting) return reject(busy())
      const request = async () => {
        signal.removeEventListener('abort', leave)
        await openFor(signal, work).then(resolve, reject)
      }
      const leave = () => {
        waiting.delete(request)
        reject(signal.reason)
      }
      if (signal.aborted) return leave()
      signal.addEventListener('abort', leave, { once: true })
      waiting.add(request)
      void serve()
    })
  }

  async function serve(): Promise<void> {
    if (isServing) return
    isServing = true
    // Includes requests that arrive meanwhile.
    for (const request of waiting) {
      waiting.delete(request)
      await request()
    }
    isServing = false
  }

  async function openFor<T>(signal: AbortSignal, work: (queue: DeadLetterQueue) => Promise<T>): Promise<T> {
    const queue = await openInTime()
    try {
      signal.throwIfAborted()
      return await work(queue)
    } finally {
      await settledWithin(runtime, answerTimeout, queue[Symbol.asyncDispose]())
    }
  }

  async function openInTime(): Promise<DeadLetterQueue> {
    const opening = open()
    try {
      return await withTimeLimit(runtime, openTimeout, openedTooLate, () => opening)
    } catch (error) {
      opening.then((late) => late[Symbol.asyncDispose]()).catch(() => {})
      throw error
    }
  }

  /** Looks at letters until the caller leaves, and does not keep it waiting then. */
  async function look<T>(signal: AbortSignal, work: (queue: DeadLetterQueue) => Promise<T>): Promise<T> {
    if (isReplaying) throw replayRunning()
    return await abortable(withQueue(signal, work), signal)
  }

  /** One look serves all callers that ask for the same list at the same time. It ends early when all of them have left. */
  function sharedList(limit: number): SharedList {
    const known = lists.get(limit)
    if (known !== undefined) return known
    const controller = new AbortController()
    const { signal } = controller
    const list = withQueue(signal, async (queue) => {
      const letters: DeadLetter[] = []
      for await (const letter of matchingLetters(queue, {}, { limit, signal })) letters.push(shown(letter))
      return { letters, count: queue.count }
    })
    const forget = () => {
      if (lists.get(limit) === shared) lists.delete(limit)
    }
    const shared: SharedList = { list: list.finally(forget), controller, callers: 0, forget }
    lists.set(limit, shared)
    return shared
  }

  function shown({ stored, message, destination, reason, failedAt, problem }: Letter): DeadLetter {
    const safe = (text: string | undefined) => (text === undefined ? undefined : mask(text))
    return { position: stored.position, message, origin: destination, reason: safe(reason), failedAt, problem: safe(problem) }
  }

  async function replayLetters(
    queue: DeadLetterQueue,
    ids: readonly string[] | undefined,
    { signal, onProgress }: Parameters<DeadLetterPort['replay']>[1],
  ): Promise<number> {
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
  }

  return {
    open,

    async list({ limit, signal }) {
      if (isReplaying) throw replayRunning()
      signal.throwIfAborted()
      const shared = sharedList(limit)
      shared.callers += 1
      try {
        return await abortable(shared.list, signal)
      } finally {
        shared.callers -= 1
        if (shared.callers === 0) {
          shared.forget()
          shared.controller.abort(signal.reason)
        }
      }
    },

    find: (id, { limit, signal }) =>
      look(signal, async (queue) => {
        const letters: DeadLetter[] = []
        for await (const letter of matchingLetters(queue, {}, { limit: maxLooked, signal })) {
          if (letter.id === id) letters.push(shown(letter))
          if (letters.length >= limit) break
        }
        return letters
      }),

    preview: (ids, { limit, signal }) =>
      look(signal, async (queue) => {
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

    async replay(ids, options) {
      const { signal } = options
      if (isReplaying) throw replayRunning()
      isReplaying = true
      let hasBegun = false
      try {
        return await withQueue(signal, (queue) => {
          hasBegun = true
          return replayLetters(queue, ids, options)
        })
      } catch (error) {
        if (signal.aborted && !hasBegun) return 0
        throw error
      } finally {
        isReplaying = false
      }
    },
  }
}

interface SharedList {
  readonly list: ReturnType<DeadLetterPort['list']>
  readonly controller: AbortController
  callers: number
  /** Later callers get another list. */
  forget(): void
}

function openedTooLate(): AckordError {
  return new AckordError('ACKORD_SOURCE_FAILED', `The dead-letter destination was not opened within ${openTimeout / 1000} s.`)
}

function replayRunning(): AckordError {
  return new AckordError('ACKORD_REPLAY_RUNNING', 'A replay of these dead letters is running. Wait until it has ended, or stop it.')
}

function busy(): AckordError {
  return new AckordError(
    'ACKORD_DEAD_LETTERS_BUSY',
    `${maxWaiting} requests are waiting for these dead letters already, which are read by one at a time. Try again later.`,
  )
}

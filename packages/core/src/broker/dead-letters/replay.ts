import { groupBy } from '../../async/collections.ts'
import { systemRuntime } from '../../ports/runtime.ts'
import { maxReplayBytes, publishInTime, ReplayPace } from '../replay-pace.ts'
import type { DeadLetterQueue } from './dead-letter-queue.ts'
import { type Letter, type LetterFilter, matchingLetters } from './letters.ts'

export interface ReplayOptions {
  readonly filter: LetterFilter
  /** Where to publish all of them. Default: the destination of each. */
  readonly to?: string | undefined
  /** Letters per second. Default: no limit. */
  readonly rate?: number | undefined
  readonly limit: number
  /** Ends the replay after the letters that are being published. */
  readonly signal: AbortSignal
  /** Called with each letter that is not replayed, the reason, and whether it was tried. */
  readonly onFailure: (letter: Letter, reason: string, kind: 'failed' | 'skipped') => void
  readonly onProgress: (result: ReplayResult) => void
}

export interface ReplayResult {
  replayed: number
  /** Not confirmed by the broker. */
  failed: number
  /** Not tried: without a destination, or incomplete. */
  skipped: number
}

/** Milliseconds. */
const publishTimeout = 30_000

/**
 * Publishes letters to their destinations, and removes each one after the broker has confirmed its message. A letter that is not confirmed stays. If the
 * process ends in between, messages that were confirmed and whose letters were not removed are published again by the next replay, with the same ids.
 */
export async function replay(queue: DeadLetterQueue, options: ReplayOptions): Promise<ReplayResult> {
  const { filter, to, rate, limit, signal, onFailure, onProgress } = options
  const result: ReplayResult = { replayed: 0, failed: 0, skipped: 0 }
  const pace = new ReplayPace(rate, systemRuntime)
  /** Destinations that do not accept messages at the moment: each further letter would wait for another time-out. */
  const down = new Map<string, string>()
  let batch: Addressed[] = []
  let bytes = 0

  function fail(letter: Letter, reason: string, kind: 'failed' | 'skipped'): void {
    result[kind] += 1
    onFailure(letter, reason, kind)
  }

  async function publishGroup(destination: string, group: readonly Addressed[]): Promise<void> {
    const known = down.get(destination)
    if (known !== undefined) {
      for (const { letter } of group) fail(letter, known, 'failed')
      return
    }
    const messages = group.map(({ letter }) => letter.message)
    const results = await publishInTime(queue.publisher, destination, messages, { timeout: publishTimeout, runtime: systemRuntime })
    const confirmed = group.filter((_, index) => results[index]?.ok === true).map(({ letter }) => letter)
    // Counted before they are removed: a letter that cannot be removed was replayed nevertheless.
    result.replayed += confirmed.length
    for (const [index, { letter }] of group.entries()) {
      const answer = results[index]
      if (answer === undefined || answer.ok) continue
      const reason = answer.error instanceof Error ? answer.error.message : String(answer.error)
      if (answer.scope === 'destination') down.set(destination, reason)
      fail(letter, reason, 'failed')
    }
    await queue.remove(confirmed.map(({ stored }) => stored))
  }

  async function flush(): Promise<void> {
    const sending = batch
    batch = []
    bytes = 0
    await pace.turn(sending.length, signal)
    if (signal.aborted) return
    for (const [destination, group] of groupBy(sending, (each) => each.destination)) await publishGroup(destination, group)
    onProgress(result)
  }

  for await (const letter of matchingLetters(queue, filter, { limit, signal })) {
    const target = targetOf(letter, { to, named: filter.ids !== undefined })
    if ('problem' in target) {
      fail(letter, target.problem, 'skipped')
      continue
    }
    batch.push({ letter, destination: target.destination })
    bytes += letter.message.data.byteLength
    if (batch.length >= pace.batchSize || bytes >= maxReplayBytes) await flush()
    if (signal.aborted) break
  }
  if (batch.length > 0) await flush()
  return result
}

interface Addressed {
  readonly letter: Letter
  readonly destination: string
}

/** Where a letter is published, or why it is not. `named`: the user has named it by its id. */
export function targetOf(
  letter: Letter,
  { to, named }: { readonly to: string | undefined; readonly named: boolean },
): { readonly destination: string } | { readonly problem: string } {
  const { replayable, problem = 'it is incomplete', destination = to } = letter
  if (replayable === 'no') return { problem }
  if (replayable === 'named' && !named && to === undefined) return { problem: `${problem}; name it by its id, or use --to` }
  if (destination === undefined) return { problem: 'it does not say which destination it came from; use --to' }
  return { destination: to ?? destination }
}

import type { Reply } from '../../client/port.ts'
import { asList } from '../../client/reply.ts'
import type { StreamOutboxContext } from './context.ts'
import type { DestinationStream } from './destination-stream.ts'
import { dropEmpty, longEmpty } from './scripts/claim-scripts.ts'

export interface EmptyDestinationsOptions {
  /** Milliseconds for which a destination must be empty before claims stop asking for it. */
  readonly claimInterval: number
  /** Milliseconds after which the keys of an empty destination are deleted. */
  readonly idleTime: number
}

/** How many streams one script drops: other clients wait meanwhile. */
const streamsPerScript = 500
/** How many destinations have their keys deleted in one round. */
const deletedPerRound = 100

/** Drops destinations that have no records, so that claims do not ask for them, and later deletes their keys. */
export class EmptyDestinations {
  readonly #context: StreamOutboxContext
  readonly #options: EmptyDestinationsOptions
  /** When keys were last deleted, by the monotonic clock. */
  #sweptAt: number

  constructor(context: StreamOutboxContext, options: EmptyDestinationsOptions) {
    this.#context = context
    this.#options = options
    this.#sweptAt = context.runtime.monotonic()
  }

  /**
   * Records whether a claim found a destination empty. Returns whether it is to be dropped: a destination that is used now and then stays, because finding
   * it again costs another call.
   */
  noteEmpty(stream: DestinationStream, isEmpty: boolean): boolean {
    const now = this.#context.runtime.monotonic()
    if (!isEmpty) stream.emptySince = undefined
    else stream.emptySince ??= now
    return stream.emptySince !== undefined && now - stream.emptySince >= this.#options.claimInterval
  }

  /** Drops these, unless a record was stored meanwhile. Deletes the keys of destinations that were dropped long ago. */
  async drop(empty: readonly DestinationStream[]): Promise<void> {
    const { streams, runtime } = this.#context
    const isDue = runtime.monotonic() - this.#sweptAt >= this.#options.idleTime
    if (empty.length === 0 && !isDue) return
    const before = this.#sweptAt
    if (isDue) this.#sweptAt = runtime.monotonic()
    for (const tag of streams.tags) {
      const dropped = empty.filter((stream) => stream.tag === tag)
      if (isDue) {
        const names = await this.#longEmpty(tag)
        dropped.push(...names.map((name) => streams.get(tag, String(name))))
        // There may be more. The next claim goes on, so that destinations that come and go do not pile up.
        if (names.length === deletedPerRound) this.#sweptAt = before
      }
      for (let start = 0; start < dropped.length; start += streamsPerScript) {
        await this.#dropSome(tag, dropped.slice(start, start + streamsPerScript))
      }
    }
  }

  async #longEmpty(tag: string): Promise<readonly Reply[]> {
    const { port, streams } = this.#context
    const args = [String(this.#options.idleTime), String(deletedPerRound)]
    return asList(await port.evaluate(longEmpty, [streams.emptyKey(tag)], args, { binary: true }))
  }

  async #dropSome(tag: string, dropped: readonly DestinationStream[]): Promise<void> {
    const { port, streams, group } = this.#context
    const own = [...dropped.flatMap((stream) => stream.allKeys), ...dropped.map((stream) => stream.keys.gate)]
    const keys = [streams.destinationsKey(tag), streams.emptyKey(tag), ...own]
    const names = dropped.map(({ destination }) => destination)
    await port.evaluate(dropEmpty, keys, [group, String(this.#options.idleTime), ...names])
  }
}

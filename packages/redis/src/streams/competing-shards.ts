import type { CompetingShard } from './competing-shard.ts'
import type { Reading } from './shard.ts'

/** All shards of a stream, each shared with other consumers. */
export class CompetingShards implements Reading {
  readonly finished: Promise<void>
  readonly #shards: readonly CompetingShard[]

  constructor(shards: readonly CompetingShard[]) {
    this.#shards = shards
    this.finished = Promise.all(shards.map(({ finished }) => finished)).then(() => {})
  }

  async run(): Promise<void> {
    await Promise.all(this.#shards.map((shard) => shard.run()))
  }

  async leave(): Promise<void> {
    await Promise.all(this.#shards.map((shard) => shard.leave()))
  }

  async dispose(): Promise<void> {
    await Promise.all(this.#shards.map((shard) => shard.dispose()))
  }
}

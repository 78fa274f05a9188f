import type { MemoryTopic } from './memory-topic.ts'

/** What a topic, or one group of it, holds at this moment. All but sources and the totals are 0 when everything is done and nobody pulls. */
export interface MemoryStats {
  /** Messages that the topic keeps, for any group. */
  readonly kept: number
  /** Waiting for a source. */
  readonly ready: number
  /** Waiting for an earlier message of their key. */
  readonly blocked: number
  /** Nacked with a delay that has not passed. */
  readonly delayed: number
  /** Yielded and not settled. */
  readonly inFlight: number
  /** Keys of messages that are not done, where order is kept. */
  readonly keys: number
  /** Pulls that wait for a message. */
  readonly waiting: number
  /** Sources that are not disposed. */
  readonly sources: number
  /** In total: messages that the topic took. */
  readonly published: number
  /** In total. */
  readonly acked: number
  /** In total: dead-lettered or discarded. */
  readonly rejected: number
}

/** The sum of all groups, or of the one with this name. */
export function memoryStats(topic: MemoryTopic | undefined, name: string | undefined): MemoryStats {
  const groups = [...(topic?.groups.values() ?? [])].filter((group) => name === undefined || group.name === name)
  const sum = (count: (group: (typeof groups)[number]) => number) => groups.reduce((total, group) => total + count(group), 0)
  return {
    kept: topic?.kept ?? 0,
    ready: sum((group) => group.ready),
    blocked: sum((group) => group.blocked),
    delayed: sum((group) => group.delayed),
    inFlight: sum((group) => group.inFlight),
    keys: sum((group) => group.keys),
    waiting: sum((group) => group.waiting),
    sources: sum((group) => group.readers.size),
    published: topic?.published ?? 0,
    acked: sum((group) => group.acked),
    rejected: sum((group) => group.rejected),
  }
}

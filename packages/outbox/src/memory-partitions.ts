const partitionCount = 256

/**
 * Which store object owns which partition. A member lives while it comes again before its time is over; the living share the partitions evenly.
 *
 *     free  ─ a member below its share comes ─▶ owned ─ the owner leaves, or its time is over ─▶ free
 *     owned ─ the owner is above its share ───▶ draining: it gives nothing more of it ─ nothing is in hand ─▶ free
 */
export class MemoryPartitions {
  /** Until when each member lives. */
  readonly #members = new Map<string, number>()
  readonly #owners: (string | undefined)[] = Array.from({ length: partitionCount })

  isLive(member: string, now: number): boolean {
    return (this.#members.get(member) ?? 0) > now
  }

  owns(member: string, partition: number, now: number): boolean {
    return this.#owners[partition] === member && this.isLive(member, now)
  }

  /** A member says that it lives. It begins anew if it comes too late. */
  attend(member: string, until: number, now: number): void {
    for (const one of [...this.#members.keys()]) if (!this.isLive(one, now)) this.leave(one)
    this.#members.set(member, until)
  }

  leave(member: string): void {
    this.#members.delete(member)
    for (const partition of this.#of(member)) this.#owners[partition] = undefined
  }

  /** What a member below its share gets: what nobody owns. */
  take(member: string): readonly number[] {
    const taken = this.#of(undefined).slice(0, Math.max(0, this.#share - this.#of(member).length))
    for (const partition of taken) this.#owners[partition] = member
    return taken
  }

  /** Frees what a member has above its share and nothing of in hand. Gives what it keeps and may claim from, and how many it has freed. */
  yieldSurplus(member: string, inHand: ReadonlySet<number>): { readonly kept: ReadonlySet<number>; readonly freed: number } {
    const kept = new Set(this.#of(member))
    // The highest first, so that the next call picks the same ones again: otherwise nothing would ever be drained.
    const candidates = [...kept].reverse()
    const surplus = [...candidates.filter((one) => !inHand.has(one)), ...candidates.filter((one) => inHand.has(one))].slice(
      0,
      Math.max(0, kept.size - this.#share),
    )
    let freed = 0
    for (const partition of surplus) {
      kept.delete(partition)
      if (inHand.has(partition)) continue
      this.#owners[partition] = undefined
      freed += 1
    }
    return { kept, freed }
  }

  get #share(): number {
    return Math.ceil(partitionCount / this.#members.size)
  }

  #of(owner: string | undefined): number[] {
    return [...this.#owners.keys()].filter((partition) => this.#owners[partition] === owner)
  }
}

/** Any hash does: unlike a database's it is never stored. */
export function memoryPartitionOf(key: string): number {
  let hash = 0
  for (let index = 0; index < key.length; index += 1) hash = Math.imul(hash ^ key.charCodeAt(index), 0x01000193)
  return ((hash >>> 16) ^ hash) & (partitionCount - 1)
}

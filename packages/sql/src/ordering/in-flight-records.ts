import type { Claim } from '@ackord/outbox'
import type { InHand, OwnedClaimOptions } from '../contract/store-dialect.ts'

/** A record that was given to the relay and has no outcome yet. */
export interface Held extends InHand {
  readonly token: string
  /** By the runtime's clock: when whoever has it has lost it, if nothing is heard of it. */
  until: number
}

type Note = OwnedClaimOptions['note']

/**
 * What a store object has in hand, and which notes of it are in the database. A claim writes a note of what it gives, and nothing rewrites it: what is settled is
 * found to be settled at a takeover. Only what goes back unsettled must not be counted, so the next claim carries the rest of such a note into its own.
 */
export class Hand {
  readonly #held = new Map<string, { readonly held: Held; note: number }>()
  /** How much of each note is in hand. */
  readonly #notes = new Map<number, number>()
  /** Notes of which nothing is in hand, and those of which something went back. */
  readonly #done = new Set<number>()
  readonly #outdated = new Set<number>()
  #lastNote = 0

  get all(): readonly Held[] {
    return [...this.#held.values()].map(({ held }) => held)
  }

  get partitions(): ReadonlySet<number> {
    return new Set(this.all.map(({ partition }) => partition))
  }

  find({ id, token }: Claim): Held | undefined {
    const held = this.#held.get(id)?.held
    return held?.token === token ? held : undefined
  }

  /** For a claim that is about to be made. It must come to `written` or `unknown`. */
  nextNote(): Note {
    this.#lastNote += 1
    const carried = [...this.#held.values()].filter(({ note }) => this.#outdated.has(note)).map(({ held }) => held)
    return { number: this.#lastNote, done: [...this.#done, ...this.#outdated], carried }
  }

  written({ number, done, carried }: Note): void {
    for (const note of done) {
      this.#done.delete(note)
      this.#outdated.delete(note)
      this.#notes.delete(note)
    }
    for (const { seq } of carried) {
      const entry = this.#held.get(seq)
      if (entry === undefined || !done.includes(entry.note)) continue
      entry.note = number
      this.#count(number, 1)
    }
    if (carried.length > 0 && !this.#notes.has(number)) this.#done.add(number)
  }

  /** The claim failed, and its note may be there. */
  unknown({ number }: Note): void {
    this.#done.add(number)
  }

  take(held: Held, { number }: Note): void {
    this.#held.set(held.seq, { held, note: number })
    this.#count(number, 1)
  }

  /** It has an outcome, or is lost. */
  drop(held: Held): void {
    const entry = this.#held.get(held.seq)
    if (entry?.held !== held) return
    this.#held.delete(held.seq)
    this.#count(entry.note, -1)
  }

  /** It goes back as it was. */
  giveBack(held: Held): void {
    const note = this.#held.get(held.seq)?.note
    this.drop(held)
    if (note !== undefined && this.#notes.has(note)) this.#outdated.add(note)
  }

  clear(): void {
    for (const all of [this.#held, this.#notes, this.#done, this.#outdated]) all.clear()
  }

  #count(note: number, change: number): void {
    const count = (this.#notes.get(note) ?? 0) + change
    if (count > 0) {
      this.#notes.set(note, count)
      return
    }
    this.#notes.delete(note)
    this.#outdated.delete(note)
    this.#done.add(note)
  }
}

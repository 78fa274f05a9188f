import type { Runtime } from '@ackord/core'
import type { Note, NoteKind, OutboxNotes } from '../store/notes.ts'

/** The notes of the in-memory store. */
export class MemoryNotes implements OutboxNotes {
  readonly #runtime: Runtime
  readonly #notes = new Map<NoteKind, Map<string, { readonly value: string; readonly at: number }>>()

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  async put(kind: NoteKind, notes: readonly Pick<Note, 'name' | 'value'>[], keep: number): Promise<void> {
    const all = this.#of(kind)
    const now = this.#runtime.now()
    for (const [name, { at }] of all) if (now - at > keep) all.delete(name)
    for (const { name, value } of notes) {
      // Deleted first, so that the order of the map is the order of writing.
      all.delete(name)
      all.set(name, { value, at: now })
    }
  }

  async read(
    kind: NoteKind,
    { limit, maxAge = Infinity }: { readonly limit: number; readonly maxAge?: number | undefined },
  ): Promise<readonly Note[]> {
    const now = this.#runtime.now()
    const notes = [...this.#of(kind)].map(([name, { value, at }]) => ({ name, value, at, age: Math.max(0, now - at) }))
    return notes
      .filter(({ age }) => age <= maxAge)
      .reverse()
      .slice(0, limit)
  }

  async delete(kind: NoteKind, name: string): Promise<boolean> {
    return this.#of(kind).delete(name)
  }

  #of(kind: NoteKind): Map<string, { readonly value: string; readonly at: number }> {
    let notes = this.#notes.get(kind)
    if (notes === undefined) {
      notes = new Map()
      this.#notes.set(kind, notes)
    }
    return notes
  }
}

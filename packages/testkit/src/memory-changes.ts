import { AckordError } from '@ackord/core'

/** Keys and values. Values are kept as they are: they are best not changed afterwards. */
export interface MemoryTable {
  get(key: string): unknown
  set(key: string, value: unknown): void
  delete(key: string): void
  /** Sorted by key. */
  entries(): readonly (readonly [string, unknown])[]
}

interface Entry {
  readonly value: unknown
}

/** What is committed. */
export class MemoryRecords implements MemoryTable {
  readonly inbox: Set<string> = new Set()
  readonly #values = new Map<string, unknown>()
  readonly #versions = new Map<string, number>()

  get(key: string): unknown {
    return this.#values.get(key)
  }

  set(key: string, value: unknown): void {
    this.#values.set(key, value)
    this.#versions.set(key, this.versionOf(key) + 1)
  }

  delete(key: string): void {
    this.#values.delete(key)
    this.#versions.set(key, this.versionOf(key) + 1)
  }

  entries(): readonly (readonly [string, unknown])[] {
    return sorted(this.#values)
  }

  /** How often a key was changed. */
  versionOf(key: string): number {
    return this.#versions.get(key) ?? 0
  }
}

/** What one transaction has changed, and what it has read. */
export class MemoryChanges {
  readonly table: MemoryTable
  readonly #records: MemoryRecords
  readonly #versions = new Map<string, number>()
  #entries = new Map<string, Entry | undefined>()
  #inbox = new Set<string>()
  #ended = false

  constructor(records: MemoryRecords) {
    this.#records = records
    this.table = {
      get: (key) => this.#get(key),
      set: (key, value) => this.#change(key, { value }),
      delete: (key) => this.#change(key, undefined),
      entries: () => this.#all(),
    }
  }

  /** Whether the message is new. */
  recordOnce(key: string): boolean {
    this.#checkOpen()
    if (this.#records.inbox.has(key) || this.#inbox.has(key)) return false
    this.#inbox.add(key)
    return true
  }

  /** Gives what undoes everything that comes after it. */
  savepoint(): () => void {
    const [entries, inbox] = [new Map(this.#entries), new Set(this.#inbox)]
    return () => {
      this.#entries = entries
      this.#inbox = inbox
    }
  }

  commit(): void {
    this.#checkOpen()
    const stale = [...this.#versions].find(([key, version]) => this.#records.versionOf(key) !== version)
    const repeated = [...this.#inbox].some((key) => this.#records.inbox.has(key))
    if (stale !== undefined || repeated) {
      throw new AckordError('ACKORD_TRANSACTION_CONFLICT', 'Another transaction has changed what this one had read. Run it again.')
    }
    this.end()
    for (const key of this.#inbox) this.#records.inbox.add(key)
    for (const [key, entry] of this.#entries) {
      if (entry === undefined) this.#records.delete(key)
      else this.#records.set(key, entry.value)
    }
  }

  /** From now on it refuses everything. */
  end(): void {
    this.#ended = true
  }

  #get(key: string): unknown {
    this.#checkOpen()
    if (this.#entries.has(key)) return this.#entries.get(key)?.value
    this.#note(key)
    return this.#records.get(key)
  }

  #change(key: string, entry: Entry | undefined): void {
    this.#checkOpen()
    this.#note(key)
    this.#entries.set(key, entry)
  }

  #all(): readonly (readonly [string, unknown])[] {
    this.#checkOpen()
    const all = new Map(this.#records.entries())
    for (const key of all.keys()) this.#note(key)
    for (const [key, entry] of this.#entries) {
      if (entry === undefined) all.delete(key)
      else all.set(key, entry.value)
    }
    return sorted(all)
  }

  #note(key: string): void {
    if (!this.#versions.has(key)) this.#versions.set(key, this.#records.versionOf(key))
  }

  #checkOpen(): void {
    if (this.#ended) throw new AckordError('ACKORD_SCOPE_ENDED', 'The transaction has ended.')
  }
}

function sorted(values: ReadonlyMap<string, unknown>): readonly (readonly [string, unknown])[] {
  return [...values].sort(([one], [other]) => (one < other ? -1 : 1))
}

import { type Runtime, systemRuntime } from '@ackord/core'
import type { InboxAdmin, InboxEntry, InboxKey, InboxQuery } from '@ackord/outbox'

/** The committed messages of a `MemoryStore`, and the interface for operators. */
export class MemoryInbox implements InboxAdmin {
  readonly #runtime: Runtime
  readonly #entries = new Map<string, InboxEntry>()

  constructor(runtime: Runtime = systemRuntime) {
    this.#runtime = runtime
  }

  has(key: string): boolean {
    return this.#entries.has(key)
  }

  /** Records a message under its `inboxKeyText()`. */
  add(key: string): void {
    const [consumer, source, id] = JSON.parse(key) as [string, string, string]
    this.#entries.set(key, { consumer, source, id, state: 'handled', handledAt: this.#runtime.now(), expiresAt: undefined })
  }

  async find(id: string, { consumer, source }: InboxQuery = {}): Promise<readonly InboxEntry[]> {
    return [...this.#entries.values()]
      .filter(
        (entry) => entry.id === id && (consumer ?? entry.consumer) === entry.consumer && (source === undefined || source === entry.source),
      )
      .sort((one, other) => compare(one.consumer, other.consumer) || compare(one.source, other.source))
  }

  async forget(id: string, which: InboxQuery & { readonly consumer: string }): Promise<number> {
    const found = await this.find(id, which)
    for (const entry of found) this.#entries.delete(inboxKeyText(entry))
    return found.length
  }
}

export function inboxKeyText({ consumer, source, id }: InboxKey): string {
  return JSON.stringify([consumer, source, id])
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}

import type { Context } from '@ackord/core'

/** An instance of a process. Both parts are compared byte by byte, and have at most 255 characters. */
export interface ProcessKey {
  /** The name of the process. */
  readonly process: string
  /** What the events of the instance have in common, such as the number of an order. */
  readonly id: string
}

/**
 * - `running`: it reacts to events.
 * - `finished`: it has completed, and is remembered so that late events find it finished.
 * - `forgotten`: it was remembered for as long as it was to be, and has not been deleted yet. For a new event it does not exist.
 */
export type ProcessPhase = 'running' | 'finished' | 'forgotten'

/** An instance as it is stored. */
export interface StoredProcess {
  readonly phase: ProcessPhase
  /** Incremented by every change, from 1. */
  readonly version: number
  /** The state as JSON. */
  readonly state: string
  /** The version of the definition that wrote the state. */
  readonly stateVersion: number
  /** The token of each timeout that is set, by its name. */
  readonly timeouts: Readonly<Record<string, string>>
}

/** The new contents of an instance. */
export interface ProcessChange extends Omit<StoredProcess, 'phase'> {
  /** Whether the change begins an instance: none exists, or a forgotten one of the version before. */
  readonly begins: boolean
  /** Milliseconds for which the instance is remembered, because it has finished; `undefined` while it is running. */
  readonly keep: number | undefined
}

/**
 * Where the instances of processes are. A change commits in the transaction of the message that causes it, together with its inbox record and its outputs.
 *
 *     absent ─ save() ─▶ running ─ save() with `keep` ─▶ finished ─ keep ends ─▶ forgotten ─ cleanup ─▶ absent
 *                         ▲   │                            ▲                        │
 *                         └───┘ save()                     └── end(), an operator   └─ save() that begins ─▶ running
 *
 * Of two transactions that change an instance at once, one commits: the version decides, whatever is locked. All times are the store's.
 */
export interface ProcessStore {
  /**
   * Reads an instance in the transaction of this context. The store may lock it until the transaction ends. Resolves to `undefined` if there is none. Rejects
   * with `ACKORD_TRANSACTION_REQUIRED` outside of a transaction.
   */
  load(key: ProcessKey, context: Context): Promise<StoredProcess | undefined>
  /**
   * Writes an instance in the transaction of this context: one that was loaded there with the version before, or had not been found, which makes it version 1.
   * If another transaction has changed the instance since it was loaded, this one does not commit: `save` rejects with an error of a conflict, which the
   * store's transactions retry, or the commit finds the conflict and retries.
   */
  save(key: ProcessKey, change: ProcessChange, context: Context): Promise<void>
}

/** An instance as operators see it. */
export interface ProcessRecord extends Omit<StoredProcess, 'phase'>, ProcessKey {
  readonly phase: 'running' | 'finished'
  /** When the instance was begun. Milliseconds since the epoch. */
  readonly startedAt: number
  /** When it was last changed. */
  readonly changedAt: number
  /** Until when it is remembered; `undefined` while it is running. */
  readonly expiresAt: number | undefined
}

export interface ProcessQuery {
  /** Only instances of the process of this name. Default: of all. */
  readonly process?: string | undefined
  /** Default: both. */
  readonly phase?: 'running' | 'finished' | undefined
  /** Only instances that were last changed this many milliseconds ago or earlier. Default: any. */
  readonly idleFor?: number | undefined
  /** How many instances are read for a page. A page has fewer, or none, if some of them do not match. Default: 100. */
  readonly limit?: number | undefined
  /** The `next` of the page before. Default: from the beginning. */
  readonly after?: string | undefined
}

export interface ProcessPage {
  readonly processes: readonly ProcessRecord[]
  /** Where the next page begins; `undefined` after the last one. */
  readonly next: string | undefined
}

/** For operators: looks at the instances of processes, and ends those that nothing will ever complete. Outside of transactions. */
export interface ProcessAdmin {
  /** Forgotten instances are not listed. The order is the store's. */
  list(query?: ProcessQuery): Promise<ProcessPage>
  get(key: ProcessKey): Promise<ProcessRecord | undefined>
  /**
   * Finishes a running instance as it is, without running any of its steps, so that later events and timeouts are ignored for `keep` milliseconds. Resolves to
   * whether it was running. A transaction that is changing the instance conflicts, and finds it finished when it is retried.
   */
  end(key: ProcessKey, options: { readonly keep: number }): Promise<boolean>
}

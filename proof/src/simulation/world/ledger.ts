import type { Invariant, Violation } from '../plan/invariants.ts'
import type { Behaviour, SendStep } from '../plan/plan.ts'

/** A committed event. */
export interface CommittedEvent {
  readonly id: string
  /** The position among all committed events. */
  readonly position: number
  readonly key: string
  /** The service and the command that it results from. */
  readonly effect: string
  readonly behaviour: Behaviour
}

interface LiveClaim {
  readonly token: string
  readonly process: string
  readonly event: string
  until: number
}

/** One fault. The events that it hit may be published once more. */
export type Excuse = Set<string>

const window = 10_000
const mostTries = 40
/** Per record and process: each relay detects an outage on its own, and eight relays that double their pauses publish more than forty times. */
const mostPublishes = 15
/** Per operation and process. A process handles many messages, but one that makes this many calls is in a hot loop. */
const mostCalls = 250

/** The true history, as an observer of all servers and processes sees it. Invariants are checked against it. */
export class Ledger {
  readonly violations: Violation[] = []
  readonly sent: Map<string, SendStep> = new Map()
  /** The number of times that each command was applied, by service. */
  readonly effects: Map<string, number> = new Map()
  readonly recorded: Set<string> = new Set()
  readonly committed: Map<string, CommittedEvent> = new Map()
  /** Event ids in the order of publishing, duplicates included. */
  readonly published: string[] = []
  readonly letters: Set<string> = new Set()
  readonly #claims = new Map<string, LiveClaim>()
  readonly #excuses: Excuse[] = []
  readonly #tries = new Map<string, { start: number; count: number }>()
  readonly #now: () => number
  readonly #start: number

  constructor(now: () => number) {
    this.#now = now
    this.#start = now()
  }

  violate(invariant: Invariant, text: string): void {
    this.violations.push({ invariant, at: this.#now() - this.#start, text })
  }

  /** Records a commit, or a write that commits on its own. */
  commit(changes: {
    readonly effects: readonly string[]
    readonly records: readonly string[]
    readonly events: readonly CommittedEvent[]
  }): void {
    for (const effect of changes.effects) this.effects.set(effect, (this.effects.get(effect) ?? 0) + 1)
    for (const record of changes.records) this.recorded.add(record)
    for (const event of changes.events) this.committed.set(event.id, event)
  }

  publish(id: string, what: string): void {
    const event = this.committed.get(id)
    if (event === undefined) this.violate('publishedCommitted', `${what} was published with the id ${id}, which was never committed.`)
    else if (!this.effects.has(event.effect)) this.violate('publishedCommitted', `${what} was published, but its command was not applied.`)
    this.published.push(id)
  }

  ack(effect: string): void {
    if (this.effects.has(effect) || this.letters.has(effect)) return
    this.violate('ackedAfterCommit', `${effect} was acked, and is neither applied nor in the dead letter.`)
  }

  /** Counts an attempt. Too many attempts within the window are a hot loop. */
  tries(what: string, most: number = mostTries): void {
    const now = this.#now()
    const recent = this.#tries.get(what)
    if (recent === undefined || now - recent.start > window) {
      this.#tries.set(what, { start: now, count: 1 })
      return
    }
    recent.count += 1
    if (recent.count === most) this.violate('noHotLoop', `${what} came ${most} times within ${now - recent.start} ms.`)
  }

  /** Records that a process publishes a record. */
  publishes(process: string, id: string): void {
    this.tries(`a publish of ${id} by ${process}`, mostPublishes)
  }

  /** Records that a process calls a server. */
  calls(process: string, operation: string): void {
    this.tries(`${operation} by ${process}`, mostCalls)
  }

  claimed(row: string, token: string, claim: { readonly process: string; readonly event: string; readonly until: number }): void {
    const live = this.#claims.get(row)
    if (live !== undefined && live.until > this.#now() && live.until !== Infinity) {
      this.violate('leaseKept', `Record ${row} was given to ${claim.process} while ${live.process} had its lease.`)
    }
    this.#claims.set(row, { token, ...claim })
  }

  renewed(row: string, token: string, until: number): void {
    const live = this.#claims.get(row)
    if (live?.token === token) live.until = until
  }

  /** Records that a claim has ended because the store accepted its settlement. */
  settled(row: string, token: string, by: string): void {
    const live = this.#claims.get(row)
    if (live !== undefined && live.token !== token) {
      this.violate('leaseKept', `Record ${row} was settled by ${by} while ${live.process} had it.`)
    } else if (live !== undefined && live.until <= this.#now()) {
      this.violate('leaseKept', `Record ${row} was settled by ${by}, whose lease had ended.`)
    }
    this.#claims.delete(row)
  }

  /** Records that a relay sends an event. The relay checks its lease right before. */
  sends(event: string, by: string): void {
    const claims = [...this.#claims.values()].filter((claim) => claim.event === event)
    if (claims.length === 0 || claims.some(({ process, until }) => process === by && until > this.#now())) return
    this.violate('leaseKept', `${event} was sent by ${by}, which had no lease of it any more.`)
  }

  /** Records that a claim was released, if it was still valid. */
  released(row: string, token: string): void {
    if (this.#claims.get(row)?.token === token) this.#claims.delete(row)
  }

  /** The records that a process has claimed and not settled. */
  heldBy(process: string): string[] {
    return [...this.#claims].filter(([, claim]) => claim.process === process).map(([row]) => row)
  }

  excuse(): Excuse {
    const excuse: Excuse = new Set()
    this.#excuses.push(excuse)
    return excuse
  }

  /** Records that a fault hits a process, or all of them: its claimed events may be published twice. */
  hit(excuse: Excuse, process?: string): void {
    for (const claim of this.#claims.values()) if (process === undefined || claim.process === process) excuse.add(claim.event)
  }

  /** The number of duplicates of the event that the faults of this history explain. */
  excusesOf(event: string): number {
    return this.#excuses.reduce((count, excuse) => count + (excuse.has(event) ? 1 : 0), 0)
  }
}

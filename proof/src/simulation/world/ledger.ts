import type { Invariant, Violation } from '../plan/invariants.ts'
import type { Behaviour, SendStep } from '../plan/plan.ts'

/** An event as it was committed. */
export interface CommittedEvent {
  readonly id: string
  /** Where it stands among all commits. */
  readonly position: number
  readonly key: string
  /** Which command it comes of, handled by whom. */
  readonly effect: string
  readonly behaviour: Behaviour
}

interface LiveClaim {
  readonly token: string
  readonly process: string
  readonly event: string
  until: number
}

/** One fault. What it hit may be published once more. */
export type Excuse = Set<string>

const window = 10_000
const mostTries = 40
/** Of one record by one process: each relay finds out for itself that the broker is down, and eight that double their pauses come to more than forty. */
const mostPublishes = 15
/** A process has many messages; but one that calls a server this often has not much else to do. */
const mostCalls = 250

/** What has really happened, as somebody sees it who stands above all servers and processes. Invariants are checked against it. */
export class Ledger {
  readonly violations: Violation[] = []
  readonly sent: Map<string, SendStep> = new Map()
  /** How often each command was applied, by service. */
  readonly effects: Map<string, number> = new Map()
  readonly recorded: Set<string> = new Set()
  readonly committed: Map<string, CommittedEvent> = new Map()
  /** Ids in the order of their publishes, repeated where they were repeated. */
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

  /** One commit, or one write that commits by itself. */
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

  /** Somebody tries something. Anything that is tried all the time is a hot loop. */
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

  /** A process sends a record. */
  publishes(process: string, id: string): void {
    this.tries(`a publish of ${id} by ${process}`, mostPublishes)
  }

  /** A process calls a server. */
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

  /** A claim has ended, because the store took what its holder said. */
  settled(row: string, token: string, by: string): void {
    const live = this.#claims.get(row)
    if (live !== undefined && live.token !== token) {
      this.violate('leaseKept', `Record ${row} was settled by ${by} while ${live.process} had it.`)
    } else if (live !== undefined && live.until <= this.#now()) {
      this.violate('leaseKept', `Record ${row} was settled by ${by}, whose lease had ended.`)
    }
    this.#claims.delete(row)
  }

  /** A relay sends an event. It looks at its lease right before. */
  sends(event: string, by: string): void {
    const claims = [...this.#claims.values()].filter((claim) => claim.event === event)
    if (claims.length === 0 || claims.some(({ process, until }) => process === by && until > this.#now())) return
    this.violate('leaseKept', `${event} was sent by ${by}, which had no lease of it any more.`)
  }

  /** A claim was given back, if it still held. */
  released(row: string, token: string): void {
    if (this.#claims.get(row)?.token === token) this.#claims.delete(row)
  }

  /** What a process has in hand. */
  heldBy(process: string): string[] {
    return [...this.#claims].filter(([, claim]) => claim.process === process).map(([row]) => row)
  }

  excuse(): Excuse {
    const excuse: Excuse = new Set()
    this.#excuses.push(excuse)
    return excuse
  }

  /** A fault hits a process, or all of them: what it has in hand may come twice. */
  hit(excuse: Excuse, process?: string): void {
    for (const claim of this.#claims.values()) if (process === undefined || claim.process === process) excuse.add(claim.event)
  }

  /** How often the faults of this history excuse a duplicate of the event. */
  excusesOf(event: string): number {
    return this.#excuses.reduce((count, excuse) => count + (excuse.has(event) ? 1 : 0), 0)
  }
}

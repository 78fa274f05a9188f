import { idle, type RawMessage } from '@ackord/core'
import { checkCount, checkDuration, rejectUnknownOptions } from '@ackord/core/internal'
import type { Reply } from '../../../client/port.ts'
import { asList } from '../../../client/reply.ts'
import { contextOf, type LuaOutboxContext, runWith } from '../context.ts'
import type { LuaShard } from '../layout.ts'
import type { LuaOutbox } from '../lua-outbox.ts'
import { hashDestination, readBody, storedRecord } from '../record-body.ts'
import { RunnerLock } from './runner-lock.ts'
import { adoptScript, type RepairClass, type RepairPhase, repairClasses, repairPhases, repairStepScript } from './scripts.ts'

export interface RepairOptions {
  /** Whether it only counts. It then writes nothing, not even its position, and needs no lock. Default: false. */
  readonly dryRun?: boolean | undefined
  /** About how many index entries one script reads: other clients wait meanwhile. Default: 200. */
  readonly batchSize?: number | undefined
  /** The maximum number of such steps on each shard. Default: Infinity, the whole shard. */
  readonly batches?: number | undefined
  /** Whether it continues where the last repair stopped, also that of another process. Default: false. */
  readonly resume?: boolean | undefined
  /** The maximum number of records of a shard whose counts for `stats()` are recomputed, which is one script. Default: 20,000. */
  readonly mostCounted?: number | undefined
  /** Milliseconds after which another process may continue if this one no longer answers. Default: 30 seconds. */
  readonly lease?: number | undefined
  /** Stops it between two steps. */
  readonly signal?: AbortSignal | undefined
}

export interface RepairReport {
  /** The repaired problems, or, with `dryRun`, the problems found. */
  readonly counts: Readonly<Record<RepairClass, number>>
  /** Whether it reached the end of every shard. */
  readonly finished: boolean
  /** Shards that another process repairs, or took over. */
  readonly busy: number
  /** Shards with too many records to recompute their counts. */
  readonly uncounted: number
}

interface Terms {
  readonly dryRun: boolean
  readonly batchSize: number
  readonly batches: number
  readonly resume: boolean
  readonly mostCounted: number
  readonly lease: number
  readonly signal: AbortSignal | undefined
}

/** Between two steps the server serves other clients. */
const pauseBetweenSteps = 2
/** Bodies are read with their ids; they may be large. */
const bodiesAtOnce = 10

/**
 * Finds and repairs inconsistencies that scripts never leave behind, but lost writes, missing permissions or manual changes of the keys may. Each finding and its repair are one
 * step, so that it is safe to run at any time. Records whose state is unknown are parked; no record is deleted.
 */
export async function repairLuaOutbox(outbox: LuaOutbox, options: RepairOptions = {}): Promise<RepairReport> {
  const {
    dryRun = false,
    batchSize = 200,
    batches = Infinity,
    resume = false,
    mostCounted = 20_000,
    lease = 30_000,
    signal,
    ...unknown
  } = options
  rejectUnknownOptions('repairLuaOutbox()', unknown)
  checkCount('batchSize', batchSize)
  checkCount('batches', batches, { infinite: true })
  checkCount('mostCounted', mostCounted, { min: 0 })
  checkDuration('lease', lease, { min: 1000 })
  const context = contextOf(outbox)
  const terms: Terms = { dryRun, batchSize, batches, resume, mostCounted, lease, signal }
  const passes = context.shards.all.map((shard) => new ShardPass(context, shard, terms))
  try {
    for (const pass of passes) if (signal?.aborted !== true) await pass.run()
  } finally {
    // Including what was done before a failure.
    if (!dryRun) report(context, sumOf(passes))
  }
  return {
    counts: sumOf(passes),
    finished: passes.every(({ finished }) => finished),
    busy: passes.filter(({ busy }) => busy).length,
    uncounted: passes.filter(({ uncounted }) => uncounted).length,
  }
}

function sumOf(passes: readonly ShardPass[]): Record<RepairClass, number> {
  const sums = zeros()
  for (const { counts } of passes) for (const name of repairClasses) sums[name] += counts[name]
  return sums
}

function report({ logger, metrics }: LuaOutboxContext, counts: Readonly<Record<RepairClass, number>>): void {
  for (const name of repairClasses) if (counts[name] > 0) metrics?.count('ackord.outbox.repaired', counts[name], { class: name })
  // Expired leases are normal.
  const odd = repairClasses.some((name) => name !== 'expired' && counts[name] > 0)
  if (odd)
    logger.warn({ ...counts }, 'An outbox was repaired: its keys were inconsistent. Check for lost writes, or manual changes of its keys.')
}

/** One pass over a shard, or a part of it. */
class ShardPass {
  readonly counts: Record<RepairClass, number> = zeros()
  finished = false
  busy = false
  uncounted = false
  readonly #context: LuaOutboxContext
  readonly #shard: LuaShard
  readonly #terms: Terms
  readonly #keys: readonly string[]
  readonly #lock: RunnerLock
  /** Hashes of destinations whose name was found. */
  readonly #named = new Set<string>()

  constructor(context: LuaOutboxContext, shard: LuaShard, terms: Terms) {
    this.#context = context
    this.#shard = shard
    this.#terms = terms
    this.#lock = new RunnerLock(context.port, shard, { role: 'repair', token: context.runtime.uuid(), lease: terms.lease })
    this.#keys = [...shard.keys, shard.key('repair'), this.#lock.key]
  }

  async run(): Promise<void> {
    if (this.#terms.dryRun) {
      await this.#steps()
      return
    }
    if (!(await this.#lock.acquire())) {
      this.busy = true
      return
    }
    try {
      await this.#steps()
    } finally {
      // A lock that cannot be released expires.
      await this.#lock.release().catch(() => false)
    }
  }

  async #steps(): Promise<void> {
    const { batches, signal } = this.#terms
    let { phase, cursor } = await this.#begin()
    for (let step = 0; step < batches && !this.busy; step += 1) {
      if (step > 0 && !(await idle(this.#context.runtime, pauseBetweenSteps, signal))) return
      const next = await this.#step(phase, cursor)
      if (next === undefined) return
      const at = repairPhases.indexOf(phase)
      if (next !== '0') cursor = next
      else if (at === repairPhases.length - 1) {
        this.finished = true
        return
      } else {
        phase = repairPhases[at + 1] as RepairPhase
        cursor = '0'
      }
    }
  }

  async #begin(): Promise<{ phase: RepairPhase; cursor: string }> {
    if (this.#terms.resume && !this.#terms.dryRun) {
      const reply = await this.#context.port.send({ name: 'HMGET', args: [this.#shard.key('repair'), 'phase', 'cursor'], keys: [0] })
      const [phase, cursor] = asList(reply).map(String)
      const known = repairPhases.find((one) => one === phase)
      if (known !== undefined && cursor !== undefined && /^\d+$/.test(cursor)) return { phase: known, cursor }
    }
    return { phase: repairPhases[0], cursor: '0' }
  }

  /** Returns the next cursor; `undefined` if another process has taken over. */
  async #step(phase: RepairPhase, cursor: string): Promise<string | undefined> {
    const { dryRun, batchSize, mostCounted } = this.#terms
    const most = phase === 'entries' ? Math.min(batchSize, bodiesAtOnce) : batchSize
    const following = repairPhases[repairPhases.indexOf(phase) + 1] ?? ''
    const { token, lease } = this.#lock
    const args = [phase, cursor, String(most), dryRun ? '1' : '0', token, lease, String(mostCounted), following]
    const reply = asList(await runWith(this.#context, this.#keys, repairStepScript, args, { binary: true }))
    const [next, numbers, uncounted, ...asked] = reply
    if (String(next) === 'lost') {
      this.busy = true
      return undefined
    }
    for (const [index, number] of String(numbers).split(' ').entries()) {
      const name = repairClasses[index]
      if (name !== undefined) this.counts[name] += Number(number)
    }
    if (String(uncounted) === '1') this.uncounted = true
    for (let at = 0; at < asked.length; at += 4) if (!(await this.#adopt(asked.slice(at, at + 4)))) return undefined
    return String(next)
  }

  /** Repairs records whose body must be read. `false` if another process has taken over. */
  async #adopt([missing, id, destinationHash, body]: readonly Reply[]): Promise<boolean> {
    const { destination, message, problem } = readBody(Buffer.isBuffer(body) ? body : Buffer.from(String(body)))
    const name = String(missing) === 'name'
    if (
      name &&
      (problem !== undefined || hashDestination(destination) !== String(destinationHash) || this.#named.has(String(destinationHash)))
    )
      return true
    const { dryRun } = this.#terms
    const { token, lease } = this.#lock
    const print = name || problem !== undefined ? '-' : printOf(destination, message)
    const args = [token, lease, String(missing), String(id), hashDestination(destination), destination, print]
    const result = dryRun ? 1 : Number(await runWith(this.#context, this.#keys, adoptScript, args))
    if (result === -1) {
      this.busy = true
      return false
    }
    if (name) this.#named.add(String(destinationHash))
    if (result === 1) this.counts[name ? 'strays' : 'stateless'] += 1
    return true
  }
}

/** The same print as at `append()`, so that the same event, stored again, is a duplicate. An event that could not be stored gets a unique one. */
function printOf(destination: string, message: RawMessage): string {
  try {
    return storedRecord({ destination, message }, { maxSize: Infinity, ordered: true }).print
  } catch {
    return '-'
  }
}

function zeros(): Record<RepairClass, number> {
  return Object.fromEntries(repairClasses.map((name) => [name, 0])) as Record<RepairClass, number>
}

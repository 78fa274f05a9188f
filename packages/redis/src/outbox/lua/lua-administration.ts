import { checkCount, checkDuration } from '@ackord/core/internal'
import {
  type BaseAdministration,
  checkRearm,
  editMessage,
  invalidCursor,
  isEmptyEdit,
  matchesFilter,
  OperatorLog,
  type OutboxEdit,
  type OutboxFilter,
  type OutboxRecord,
  type OutboxState,
  type RearmOptions,
  StatsSum,
} from '@ackord/outbox'
import type { Reply } from '../../client/port.ts'
import { asList } from '../../client/reply.ts'
import { failureArguments, readFailure, readHistoryField } from '../failure-field.ts'
import { mergeByAge } from '../merge-by-age.ts'
import { type LuaOutboxContext, runOn } from './context.ts'
import type { LuaShard, ShardEntry } from './layout.ts'
import { editedMessageId, idsWithMessage } from './message-index.ts'
import { bodyOf, hashDestination, keyDigest, readBody } from './record-body.ts'
import { cancelWaitingScript, discardScript, parkScript, rearmScript, replaceScript, retentionScript } from './scripts/operate.ts'
import { getScript, listScript, statsScript } from './scripts/read.ts'

interface Listed {
  readonly record: OutboxRecord
  readonly shard: LuaShard
  readonly seq: string
  /** The state as it was read. */
  readonly state: string
  /** When it was read, by the server's clock. */
  readonly now: number
}

/** How many records one script reads or changes: other clients wait meanwhile. */
const pageSize = 100
const maxDeleted = 1000

interface Reading {
  /** The sequence number behind which to begin, or ''. */
  readonly after: string
  /** Whether messages have their data. */
  readonly payloads: boolean
}

/** `RearmOptions` as arguments of the scripts. */
interface Rearming {
  readonly state: 'parked' | 'published'
  readonly delay: string
  readonly keepAttempts: string
}

const letters: Readonly<Record<OutboxState, string>> = { ready: 'o', waiting: 'o', leased: 'o', parked: 'f', published: 's' }

/** The store for operators. */
export function luaAdministration(context: LuaOutboxContext): BaseAdministration {
  const { shards, ordered, logger } = context
  const log = new OperatorLog(logger)

  /** The records of a shard behind a sequence number, in the order in which they were stored. */
  async function* recordsOf(shard: LuaShard, letter: string, { after, payloads }: Reading): AsyncGenerator<Listed, void, void> {
    for (let from = after; ; ) {
      const reply = await runOn(context, shard, listScript, [letter, from, String(pageSize), payloads ? '1' : '0'], { binary: true })
      const [now, ...rows] = asList(reply)
      for (const row of rows) {
        const [member, ...rest] = asList(row)
        const listed = toListed(shard, String(member).slice(17), rest, Number(String(now)))
        from = String(member).slice(1, 17)
        // A record without a state does not exist; a repair removes its remains. The position is that of the index, whatever the state says.
        if (listed !== undefined) yield { ...listed, seq: from }
      }
      if (rows.length < pageSize) return
    }
  }

  /** The records of a shard that may match the filter, behind a sequence number, in the order in which they were stored. */
  async function* candidatesOf(shard: LuaShard, { state, messageId }: OutboxFilter, reading: Reading): AsyncGenerator<Listed, void, void> {
    const ids = messageId === undefined ? undefined : await idsWithMessage(context, shard, messageId)
    if (ids !== undefined) {
      const found = (await readAll(shard, [...ids])).filter(({ seq }) => seq > reading.after)
      yield* found.sort(inOrder)
      return
    }
    const wanted = state === undefined ? ['o', 'f', 's'] : [letters[state]]
    const bySeq = wanted.map((letter) => recordsOf(shard, letter, reading))
    yield* mergeByAge(bySeq, ({ seq }) => Number(seq), inOrder)
  }

  /** The records behind the cursor, oldest first. */
  async function* matching(filter: OutboxFilter, cursor: Cursor, payloads: boolean): AsyncGenerator<Listed, void, void> {
    const sources = shards.all.map((shard) => candidatesOf(shard, filter, { after: cursor.get(shard.number) ?? '', payloads }))
    const merged = mergeByAge(sources, ({ record }) => record.createdAt, inOrder)
    for await (const one of merged) {
      if (matchesFilter({ ...one.record, attributes: one.record.message.attributes }, filter, one.now)) yield one
    }
  }

  /** Those of these records that exist. */
  async function readAll(shard: LuaShard, entries: readonly string[]): Promise<Listed[]> {
    const found: Listed[] = []
    for (let start = 0; start < entries.length; start += pageSize) {
      const [now, ...rows] = asList(await runOn(context, shard, getScript, entries.slice(start, start + pageSize), { binary: true }))
      for (const row of rows) {
        const [id, ...rest] = asList(row)
        const listed = toListed(shard, String(id), rest, Number(String(now)))
        if (listed !== undefined) found.push(listed)
      }
    }
    return found
  }

  async function read({ shard, entry }: ShardEntry): Promise<Listed | undefined> {
    return (await readAll(shard, [entry]))[0]
  }

  function entriesWith(ids: readonly string[]): readonly ShardEntry[] {
    return [...new Set(ids)].flatMap((id) => shards.find(id) ?? [])
  }

  /** Calls `work` with records of one shard at a time. Resolves to the results. */
  async function byShard<T>(
    located: readonly ShardEntry[],
    work: (shard: LuaShard, entries: readonly string[]) => Promise<T>,
  ): Promise<T[]> {
    const results: T[] = []
    for (const shard of shards.all) {
      const entries = located.filter((one) => one.shard === shard).map(({ entry }) => entry)
      for (let start = 0; start < entries.length; start += pageSize) results.push(await work(shard, entries.slice(start, start + pageSize)))
    }
    return results
  }

  async function replace(one: ShardEntry, edit: OutboxEdit, { state, delay, keepAttempts }: Rearming): Promise<number> {
    const found = await read(one)
    if (found?.record.state !== state) return 0
    const { record, shard } = found
    const destination = edit.destination ?? record.destination
    const message = editMessage(record.message, edit)
    if (ordered) shards.checkKey(message, shard)
    const body = bodyOf(destination, message)
    const { source, id } = message.attributes
    const edited = editedMessageId(one.entry, { destination, source: String(source), id: String(id) })
    const args = [one.entry, found.state, body, hashDestination(destination), destination, delay, keepAttempts, keyDigest(message), edited]
    return Number(await runOn(context, shard, replaceScript, args))
  }

  async function rearmEntries(located: readonly ShardEntry[], edit: OutboxEdit, rearming: Rearming): Promise<number> {
    if (isEmptyEdit(edit)) {
      const { state, delay, keepAttempts } = rearming
      const args = [letters[state].toUpperCase(), delay, keepAttempts]
      const counts = await byShard(located, async (shard, entries) =>
        Number(await runOn(context, shard, rearmScript, [...args, ...entries])),
      )
      return counts.reduce((sum, count) => sum + count, 0)
    }
    let count = 0
    for (const one of located) count += await replace(one, edit, rearming)
    return count
  }

  async function matchingEntries(filter: OutboxFilter, state: OutboxState): Promise<readonly ShardEntry[]> {
    if (filter.state !== undefined && filter.state !== state) return []
    const ids: string[] = []
    for await (const { record } of matching({ ...filter, state }, new Map(), false)) ids.push(record.id)
    return entriesWith(ids)
  }

  return {
    async list(filter, { limit, after, payloads = true }) {
      checkCount('limit', limit)
      const cursor: Cursor = after === undefined ? new Map() : cursorOf(after, shards.all.length)
      const found: Listed[] = []
      let more = false
      for await (const one of matching(filter, cursor, payloads)) {
        more = found.length === limit
        if (more) break
        found.push(one)
        cursor.set(one.shard.number, one.seq)
      }
      return { records: found.map(({ record }) => record), next: more ? JSON.stringify([...cursor]) : undefined }
    },

    async get(id) {
      const one = shards.find(id)
      return one === undefined ? undefined : (await read(one))?.record
    },

    async rearm(which, edit = {}, options = {}) {
      const rearming = rearmingOf(options)
      const { state } = rearming
      const located = 'ids' in which ? entriesWith(which.ids) : await matchingEntries(which.filter, state)
      const count = await rearmEntries(located, edit, rearming)
      log.rearmed(count, state, which, edit)
      if (count > 0) context.metrics?.count('ackord.outbox.rearmed', count, {})
      return count
    },

    async park(ids, reason) {
      const failure = failureArguments(reason, reason)
      const parked = await byShard(entriesWith(ids), async (shard, entries) => {
        const own = asList(await runOn(context, shard, parkScript, [...failure, ...entries]))
        return own.map((entry) => shard.idOf(String(entry)))
      })
      const all = parked.flat()
      log.parked(all, reason)
      return all.length
    },

    async discard(ids, reason) {
      const discarded = await byShard(entriesWith(ids), async (shard, entries) => {
        const gone = asList(await runOn(context, shard, discardScript, entries))
        return gone.map((entry) => shard.idOf(String(entry)))
      })
      const all = discarded.flat()
      log.discarded(all, reason)
      if (all.length > 0) context.metrics?.count('ackord.outbox.discarded', all.length, {})
      return all.length
    },

    async cancelWaiting(ids, reason) {
      const cancelled = await byShard(entriesWith(ids), async (shard, entries) => {
        const gone = asList(await runOn(context, shard, cancelWaitingScript, entries))
        return gone.map((entry) => shard.idOf(String(entry)))
      })
      const all = cancelled.flat()
      log.cancelled(all, reason)
      if (all.length > 0) context.metrics?.count('ackord.outbox.cancelled', all.length, {})
      return all.length
    },

    async stats({ limit } = {}) {
      const sum = new StatsSum(limit)
      for (const reply of await Promise.all(shards.all.map((shard) => runOn(context, shard, statsScript, [])))) {
        const [oldest, ...rows] = asList(reply)
        // Of a destination whose name is missing, as before a repair.
        if (Number(oldest) >= 0) sum.addAge(Number(oldest))
        for (const row of rows) {
          const [name, ...numbers] = asList(row)
          const [ready = 0, waiting = 0, leased = 0, parked = 0, published = 0, age = -1] = numbers.map(Number)
          sum.add(String(name), { ready, waiting, leased, parked, published }, age >= 0 ? age : undefined)
        }
      }
      return { ...sum.stats, requests: shards.all.length }
    },

    async history(id) {
      const one = shards.find(id)
      return one === undefined ? [] : await readHistoryField(context.port, one.shard.key('errors'), one.entry)
    },

    async deletePublished({ olderThan, limit }) {
      checkDuration('olderThan', olderThan)
      checkCount('limit', limit)
      let deleted = 0
      for (const shard of shards.all) {
        for (let full = true; full && deleted < limit; ) {
          const asked = Math.min(limit - deleted, maxDeleted)
          const reply = asList(await runOn(context, shard, retentionScript, [String(Math.floor(olderThan)), String(asked)]))
          deleted += Number(reply[0])
          full = Number(reply[1]) === asked
        }
      }
      if (deleted > 0) context.metrics?.count('ackord.outbox.retention', deleted, {})
      return deleted
    },
  }
}

function rearmingOf(options: RearmOptions): Rearming {
  const { state = 'parked', delay = 0, keepAttempts = false } = checkRearm(options)
  return { state, delay: String(Math.ceil(delay)), keepAttempts: keepAttempts ? '1' : '0' }
}

function toListed(shard: LuaShard, entry: string, rest: readonly Reply[], now: number): Listed | undefined {
  const [text, body, failure] = rest
  if (text === null || text === undefined || text === false) return undefined
  const state = String(text)
  const [status, attempts, seq = '', created, at, , , until, token] = state.split(' ')
  const read = Buffer.isBuffer(body) ? readBody(body) : undefined
  // With order per key, which a slash in the token shows, records in flight are listed with their state before the claim.
  const leased = status === 'O' && token !== '' && token?.includes('/') !== true && Number(until) > now
  const availableAt = Number(at)
  const { lastError = read === undefined ? 'Its body is missing.' : read.problem, cause } = readFailure(failure)
  const record: OutboxRecord = {
    id: shard.idOf(entry),
    state: status === 'F' ? 'parked' : status === 'S' ? 'published' : leased ? 'leased' : availableAt > now ? 'waiting' : 'ready',
    destination: read?.destination ?? '',
    message: read?.message ?? readBody(Buffer.alloc(0)).message,
    attempts: Number(attempts),
    createdAt: Number(created),
    availableAt,
    lastError,
    cause,
    leasedUntil: leased ? Number(until) : undefined,
    publishedAt: status === 'S' ? availableAt : undefined,
    parkedAt: status === 'F' ? availableAt : undefined,
  }
  return { record, shard, seq, state, now }
}

function inOrder(one: Listed, other: Listed): number {
  if (one.shard !== other.shard) return one.shard.number - other.shard.number
  return one.seq < other.seq ? -1 : one.seq > other.seq ? 1 : 0
}

/** The last sequence number that was read of each shard. */
type Cursor = Map<number, string>

function cursorOf(after: string, shards: number): Cursor {
  try {
    const pairs = JSON.parse(after) as readonly unknown[]
    if (pairs.length > 0 && pairs.every(isRead) && pairs.every(([number]) => number < shards)) return new Map(pairs)
  } catch {
    // Not JSON, or not a list.
  }
  throw invalidCursor(after)
}

function isRead(pair: unknown): pair is [number, string] {
  if (!Array.isArray(pair) || pair.length !== 2) return false
  const [shard, seq] = pair as readonly unknown[]
  return Number.isSafeInteger(shard) && Number(shard) >= 0 && typeof seq === 'string' && seq.length > 0 && seq.length <= 16
}

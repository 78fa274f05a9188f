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
  StatsSum,
} from '@ackord/outbox'
import type { Reply } from '../../client/port.ts'
import { asList } from '../../client/reply.ts'
import { failureArguments, readFailure, readHistoryField } from '../failure-field.ts'
import { mergeByAge } from '../merge-by-age.ts'
import { fieldsOf, readFields } from '../record-fields.ts'
import type { StreamOutboxContext } from './context.ts'
import type { DestinationStream, StreamEntry } from './destination-stream.ts'
import { buildIndex } from './message-index.ts'
import {
  cancelWaiting,
  countEntries,
  discardParked,
  listEntries,
  parkEntries,
  rearmParked,
  replaceParked,
} from './scripts/admin-scripts.ts'
import { parkedConsumer } from './scripts/prelude.ts'

/** A record, and its position among the records of its process. */
interface Listed {
  readonly record: OutboxRecord
  readonly entry: string
  readonly order: string
  /** When it was read, by the server's clock. */
  readonly now: number
}

/** How many entries one script reads: other clients wait meanwhile. */
const pageSize = 100
/** How many destinations one script counts, for the same reason. */
const maxCounted = 100

interface Rearming {
  /** Milliseconds. */
  readonly delay: number
  readonly keepAttempts: boolean
}

/** The store for operators. */
export function streamAdministration(context: StreamOutboxContext, nextOrder: () => string): BaseAdministration {
  const { port, streams, group, codec, logger } = context
  const log = new OperatorLog(logger, { group })

  async function allStreams({ destination }: OutboxFilter = {}): Promise<readonly DestinationStream[]> {
    const learning = streams.tags.map(async (tag) => {
      const names = await port.send({ name: 'SMEMBERS', args: [streams.destinationsKey(tag)], keys: [0] }, { binary: true })
      streams.learn(tag, asList(names).map(String))
      return streams.of(tag)
    })
    return (await Promise.all(learning)).flat().filter((stream) => destination === undefined || stream.destination === destination)
  }

  /** Counts the entries of all destinations under a tag, with one script for each hundred that are known, and others for those that it finds to be new. */
  async function countTag(tag: string): Promise<{ readonly counts: ReadonlyMap<DestinationStream, Reply>; readonly requests: number }> {
    const counts = new Map<DestinationStream, Reply>()
    let requests = 0
    let next: readonly DestinationStream[]
    do {
      next = streams
        .of(tag)
        .filter((stream) => !counts.has(stream))
        .slice(0, maxCounted)
      const keys = [streams.destinationsKey(tag), ...next.flatMap(({ allKeys }) => allKeys)]
      const [names, ...counted] = asList(await port.evaluate(countEntries, keys, [group]))
      for (const [index, stream] of next.entries()) counts.set(stream, counted[index] ?? [])
      streams.learn(tag, asList(names ?? []).map(String))
      requests += 1
    } while (streams.of(tag).some((stream) => !counts.has(stream)))
    return { counts, requests }
  }

  interface Range {
    readonly from: string
    readonly to: string
    readonly count: number
    readonly consumer: string
    readonly payloads: boolean
    /** With a complete index, all entries with this message id are read, wherever they are. */
    readonly messageId?: string | undefined
  }

  interface EntryPage {
    readonly isIndexed: boolean
    readonly entries: readonly (Listed | { readonly entry: string })[]
  }

  async function readPage(stream: DestinationStream, { from, to, count, consumer, payloads, messageId = '' }: Range): Promise<EntryPage> {
    // Only a marshaler knows which of its fields are the payload.
    const isWhole = payloads || codec !== undefined
    const args = [group, from, to, String(count), consumer, isWhole ? '1' : '0', messageId]
    const reply = await port.evaluate(listEntries, stream.allKeys, args, { binary: true })
    const [now, isIndexed, ...entries] = asList(reply)
    return { isIndexed: String(isIndexed) === '1', entries: entries.map((entry) => listed(stream, asList(entry), Number(String(now)))) }
  }

  /** The entries of a stream that may match the filter, from an id on. */
  async function* entriesOf(
    stream: DestinationStream,
    { state, messageId }: OutboxFilter,
    { from, payloads }: Pick<Range, 'from' | 'payloads'>,
  ): AsyncGenerator<Listed, void, void> {
    const range = { from, to: '+', count: pageSize, consumer: state === 'parked' ? parkedConsumer : '', payloads }
    let page = await readPage(stream, { ...range, messageId })
    // Only by a store that keeps the index: otherwise it would be incomplete again with the next record.
    if (messageId !== undefined && context.messageIndex && !page.isIndexed && page.entries.length > 0) {
      await buildIndex(context, stream)
      page = await readPage(stream, { ...range, messageId })
    }
    if (page.isIndexed) {
      const found = page.entries.filter((one) => 'record' in one)
      yield* found.sort((one, other) => compare(keyOf(one), keyOf(other)))
      return
    }
    let last: string | undefined
    for (;;) {
      // The first entry of a page is the last of the page before: older servers have no exclusive ranges.
      for (const one of page.entries) if (one.entry !== last && 'record' in one) yield one
      last = page.entries.at(-1)?.entry
      if (page.entries.length < pageSize || last === undefined) return
      page = await readPage(stream, { ...range, from: last })
    }
  }

  /** The records behind the cursor, oldest first. */
  async function* matching(filter: OutboxFilter, cursor: AgeKey | undefined, payloads: boolean): AsyncGenerator<Listed, void, void> {
    const from = cursor === undefined ? '-' : `${cursor.ms}-0`
    const sources = (await allStreams(filter)).map((stream) => entriesOf(stream, filter, { from, payloads }))
    for await (const one of mergeByAge(
      sources,
      (one) => keyOf(one).ms,
      (one, other) => compare(keyOf(one), keyOf(other)),
    )) {
      if (cursor !== undefined && compare(keyOf(one), cursor) <= 0) continue
      if (matchesFilter({ ...one.record, attributes: one.record.message.attributes }, filter, one.now)) yield one
    }
  }

  function listed(stream: DestinationStream, reply: readonly Reply[], now: number): Listed | { readonly entry: string } {
    const [id, fields, state, attempts, available, leased, parked, failure] = reply
    const entry = String(id)
    if (!Array.isArray(fields)) return { entry }
    const { message, problem, delay, order } = readFields(fields as readonly Buffer[], codec)
    const createdAt = Number(entry.slice(0, entry.indexOf('-')))
    const availableAt = numberOf(available) || createdAt + delay
    const { lastError = problem, cause } = readFailure(failure)
    return {
      entry,
      order,
      now,
      record: {
        id: stream.idOf(entry),
        state: String(state) === 'unread' ? (availableAt > now ? 'waiting' : 'ready') : (String(state) as OutboxState),
        destination: stream.destination,
        message,
        attempts: Number(attempts),
        createdAt,
        availableAt,
        lastError,
        cause,
        leasedUntil: numberOf(leased),
        publishedAt: undefined,
        parkedAt: numberOf(parked),
      },
    }
  }

  /** Calls `work` with entries of one stream at a time. Resolves to the results. */
  async function byStream<T>(
    found: readonly StreamEntry[],
    work: (stream: DestinationStream, entries: readonly string[]) => Promise<T>,
  ): Promise<T[]> {
    const bySuffix = new Map<string, { readonly stream: DestinationStream; readonly entries: string[] }>()
    for (const { stream, entry } of found) {
      const own = bySuffix.get(stream.suffix) ?? { stream, entries: [] }
      bySuffix.set(stream.suffix, own)
      own.entries.push(entry)
    }
    const results: T[] = []
    for (const { stream, entries } of bySuffix.values()) {
      for (let start = 0; start < entries.length; start += pageSize)
        results.push(await work(stream, entries.slice(start, start + pageSize)))
    }
    return results
  }

  function entriesWith(ids: readonly string[]): readonly StreamEntry[] {
    return [...new Set(ids)].flatMap((id) => streams.find(id) ?? [])
  }

  async function getAt({ stream, entry }: StreamEntry): Promise<OutboxRecord | undefined> {
    const { entries } = await readPage(stream, { from: entry, to: entry, count: 1, consumer: '', payloads: true })
    const [found] = entries
    return found !== undefined && 'record' in found ? found.record : undefined
  }

  async function replace(found: StreamEntry, edit: OutboxEdit, { delay, keepAttempts }: Rearming): Promise<number> {
    const record = await getAt(found)
    if (record?.state !== 'parked') return 0
    const { stream, entry } = found
    const destination = edit.destination ?? record.destination
    const message = editMessage(record.message, edit)
    const fields = fieldsOf({ destination, message, delay }, codec, nextOrder())
    const to = streams.get(stream.tag, destination).keys
    const shared = [streams.destinationsKey(stream.tag), streams.wakeKey(stream.tag)]
    const keys = [...stream.allKeys, to.entries, ...shared, to.errors, to.uncounted, to.gate]
    const flags = [keepAttempts, context.messageIndex].map((flag) => (flag ? '1' : '0'))
    const args = [group, entry, destination, ...flags, String(message.attributes.id), ...fields]
    const added = await port.evaluate(replaceParked, keys, args)
    return String(added) === '' ? 0 : 1
  }

  async function rearmEntries(found: readonly StreamEntry[], edit: OutboxEdit, rearming: Rearming): Promise<number> {
    if (isEmptyEdit(edit)) {
      const args = [group, String(rearming.delay), rearming.keepAttempts ? '1' : '0']
      const counts = await byStream(found, async (stream, entries) =>
        Number(await port.evaluate(rearmParked, stream.allKeys, [...args, ...entries])),
      )
      return counts.reduce((sum, count) => sum + count, 0)
    }
    let count = 0
    for (const one of found) count += await replace(one, edit, rearming)
    return count
  }

  async function parkedEntries(filter: OutboxFilter): Promise<readonly StreamEntry[]> {
    if (filter.state !== undefined && filter.state !== 'parked') return []
    const ids: string[] = []
    for await (const { record } of matching({ ...filter, state: 'parked' }, undefined, false)) ids.push(record.id)
    return entriesWith(ids)
  }

  return {
    async list(filter, { limit, after, payloads = true }) {
      checkCount('limit', limit)
      const cursor = after === undefined ? undefined : cursorOf(after)
      const found: Listed[] = []
      for await (const one of matching(filter, cursor, payloads)) {
        found.push(one)
        if (found.length > limit) break
      }
      const last = found[limit - 1]
      const next = found.length > limit && last !== undefined ? cursorText(last) : undefined
      return { records: found.slice(0, limit).map(({ record }) => record), next }
    },

    async get(id) {
      const found = streams.find(id)
      return found === undefined ? undefined : await getAt(found)
    },

    async rearm(which, edit = {}, options = {}) {
      const { state = 'parked', delay = 0, keepAttempts = false } = checkRearm(options)
      // A published record is deleted from its stream.
      if (state === 'published') return 0
      const found = 'ids' in which ? entriesWith(which.ids) : await parkedEntries(which.filter)
      const count = await rearmEntries(found, edit, { delay: Math.ceil(delay), keepAttempts })
      log.rearmed(count, state, which, edit)
      return count
    },

    async park(ids, reason) {
      const failure = failureArguments(reason, reason)
      const parked = await byStream(entriesWith(ids), async (stream, entries) => {
        const own = asList(await port.evaluate(parkEntries, [...stream.allKeys, stream.keys.gate], [group, ...failure, ...entries]))
        return own.map((entry) => stream.idOf(String(entry)))
      })
      const all = parked.flat()
      log.parked(all, reason)
      return all.length
    },

    async discard(ids, reason) {
      const discarded = await byStream(entriesWith(ids), async (stream, entries) => {
        const own = asList(await port.evaluate(discardParked, stream.allKeys, [group, ...entries]))
        return own.map((entry) => stream.idOf(String(entry)))
      })
      const all = discarded.flat()
      log.discarded(all, reason)
      return all.length
    },

    async cancelWaiting(ids, reason) {
      const cancelled = await byStream(entriesWith(ids), async (stream, entries) => {
        const found = await Promise.all(entries.map((entry) => getAt({ stream, entry })))
        // When its delay ends, for an entry that no claim has read: only its fields say that.
        const timed = found.flatMap((record, index) => (record === undefined ? [] : [entries[index] ?? '', String(record.availableAt)]))
        if (timed.length === 0) return []
        const gone = asList(await port.evaluate(cancelWaiting, stream.allKeys, [group, ...timed]))
        return gone.map((entry) => stream.idOf(String(entry)))
      })
      const all = cancelled.flat()
      log.cancelled(all, reason)
      return all.length
    },

    async stats({ limit } = {}) {
      const sum = new StatsSum(limit)
      const tags = await Promise.all(streams.tags.map(countTag))
      for (const [stream, reply] of tags.flatMap(({ counts }) => [...counts])) {
        const [ready = 0, waiting = 0, leased = 0, parked = 0, age = -1] = asList(reply).map(Number)
        if (ready + waiting + leased + parked === 0) continue
        sum.add(stream.destination, { ready, waiting, leased, parked }, age >= 0 ? age : undefined)
      }
      return { ...sum.stats, requests: tags.reduce((total, { requests }) => total + requests, 0) }
    },

    async history(id) {
      const found = streams.find(id)
      return found === undefined ? [] : await readHistoryField(port, found.stream.keys.errors, found.entry)
    },

    /** Published records are deleted when they are settled. */
    async deletePublished({ olderThan, limit }) {
      checkDuration('olderThan', olderThan)
      checkCount('limit', limit)
      return 0
    },
  }
}

/** Sorts by the millisecond in which a record was stored, then by the order in its process. */
interface AgeKey {
  readonly ms: number
  readonly order: string
  readonly id: string
}

function keyOf({ entry, order, record }: Listed): AgeKey {
  return { ms: Number(entry.slice(0, entry.indexOf('-'))), order, id: record.id }
}

function compare(one: AgeKey, other: AgeKey): number {
  return one.ms - other.ms || compareText(one.order, other.order) || compareText(one.id, other.id)
}

function compareText(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}

function cursorText(one: Listed): string {
  const { ms, order, id } = keyOf(one)
  return JSON.stringify([ms, order, id])
}

function cursorOf(after: string): AgeKey {
  try {
    const [ms, order, id, ...more] = JSON.parse(after) as readonly unknown[]
    if (Number.isSafeInteger(ms) && typeof order === 'string' && typeof id === 'string' && more.length === 0) {
      return { ms: ms as number, order, id }
    }
  } catch {
    // Not JSON, or not a list.
  }
  throw invalidCursor(after)
}

function numberOf(reply: Reply | undefined): number | undefined {
  const text = String(reply ?? '')
  return text === '' ? undefined : Number(text)
}

import { checkCount, checkDuration } from '@ackord/core/internal'
import {
  checkRearm,
  type DestinationStats,
  invalidCursor,
  type OutboxAdmin,
  type OutboxEdit,
  type OutboxFilter,
  type OutboxRecord,
  type OutboxState,
} from '@ackord/outbox'
import type { Reply } from '../../client/port.ts'
import { asList } from '../../client/reply.ts'
import { addStats, edited, isEmpty, matches } from '../administration.ts'
import { mergeByAge } from '../merge-by-age.ts'
import { fieldsOf, readFields } from '../record-fields.ts'
import type { OutboxHome } from './context.ts'
import type { Lane, Place } from './destination-stream.ts'
import { countEntries, discardParked, listEntries, parkEntries, rearmParked, replaceParked } from './scripts/admin-scripts.ts'
import { parkedConsumer } from './scripts/prelude.ts'

/** A record, and in which order its process stored it. */
interface Listed {
  readonly record: OutboxRecord
  readonly entry: string
  readonly order: string
}

/** How many entries one script reads: others wait meanwhile. */
const pageSize = 100
const maxErrorLength = 10_000

interface Rearming {
  /** Milliseconds. */
  readonly delay: number
  readonly keepAttempts: boolean
}

/** The operators' side of the store. */
export function streamAdministration(home: OutboxHome, nextOrder: () => string): OutboxAdmin {
  const { port, lanes, group, codec, logger } = home

  async function allLanes({ destination }: OutboxFilter = {}): Promise<readonly Lane[]> {
    const learning = lanes.tags.map(async (tag) => {
      const names = await port.send({ name: 'SMEMBERS', args: [lanes.destinationsKey(tag)], keys: [0] }, { binary: true })
      lanes.learn(tag, asList(names).map(String))
      return lanes.of(tag)
    })
    return (await Promise.all(learning)).flat().filter((lane) => destination === undefined || lane.destination === destination)
  }

  interface Range {
    readonly from: string
    readonly to: string
    readonly count: number
    readonly consumer: string
  }

  async function readPage(lane: Lane, { from, to, count, consumer }: Range): Promise<readonly (Listed | { readonly entry: string })[]> {
    const reply = await port.evaluate(listEntries, lane.allKeys, [group, from, to, String(count), consumer], { binary: true })
    const [now, ...entries] = asList(reply)
    return entries.map((entry) => listed(lane, asList(entry), Number(String(now))))
  }

  /** From a moment on, in the order of the stream. */
  async function* entriesOf(lane: Lane, from: string, state: OutboxState | undefined): AsyncGenerator<Listed, void, void> {
    const consumer = state === 'parked' ? parkedConsumer : ''
    let last: string | undefined
    for (;;) {
      const page = await readPage(lane, { from: last ?? from, to: '+', count: pageSize, consumer })
      // A range without its start is not for all servers, so the first is the last of the page before.
      for (const one of page) if (one.entry !== last && 'record' in one) yield one
      if (page.length < pageSize) return
      last = page.at(-1)?.entry
    }
  }

  /** Oldest first, those behind the cursor. */
  async function* matching(filter: OutboxFilter, cursor: AgeKey | undefined): AsyncGenerator<Listed, void, void> {
    const { state } = filter
    const sources = (await allLanes(filter)).map((lane) => entriesOf(lane, cursor === undefined ? '-' : `${cursor.ms}-0`, state))
    for await (const one of mergeByAge(
      sources,
      (one) => keyOf(one).ms,
      (one, other) => compare(keyOf(one), keyOf(other)),
    )) {
      if (cursor !== undefined && compare(keyOf(one), cursor) <= 0) continue
      if (matches(one.record, filter)) yield one
    }
  }

  function listed(lane: Lane, reply: readonly Reply[], now: number): Listed | { readonly entry: string } {
    const [id, fields, state, attempts, available, leased, parked, error] = reply
    const entry = String(id)
    if (!Array.isArray(fields)) return { entry }
    const { message, problem, delay, order } = readFields(fields as readonly Buffer[], codec)
    const createdAt = Number(entry.slice(0, entry.indexOf('-')))
    const availableAt = numberOf(available) || createdAt + delay
    return {
      entry,
      order,
      record: {
        id: lane.idOf(entry),
        state: String(state) === 'unread' ? (availableAt > now ? 'waiting' : 'ready') : (String(state) as OutboxState),
        destination: lane.destination,
        message,
        attempts: Number(attempts),
        createdAt,
        availableAt,
        lastError: error === null || error === undefined ? problem : String(error),
        leasedUntil: numberOf(leased),
        publishedAt: undefined,
        parkedAt: numberOf(parked),
      },
    }
  }

  /** Runs for the places of a lane together; gives what each call gave. */
  async function byLane<T>(places: readonly Place[], work: (lane: Lane, entries: readonly string[]) => Promise<T>): Promise<T[]> {
    const bySuffix = new Map<string, { readonly lane: Lane; readonly entries: string[] }>()
    for (const { lane, entry } of places) {
      const own = bySuffix.get(lane.suffix) ?? { lane, entries: [] }
      bySuffix.set(lane.suffix, own)
      own.entries.push(entry)
    }
    const results: T[] = []
    for (const { lane, entries } of bySuffix.values()) {
      for (let start = 0; start < entries.length; start += pageSize) results.push(await work(lane, entries.slice(start, start + pageSize)))
    }
    return results
  }

  function placesOf(ids: readonly string[]): readonly Place[] {
    return [...new Set(ids)].flatMap((id) => lanes.find(id) ?? [])
  }

  async function getAt({ lane, entry }: Place): Promise<OutboxRecord | undefined> {
    const [found] = await readPage(lane, { from: entry, to: entry, count: 1, consumer: '' })
    return found !== undefined && 'record' in found ? found.record : undefined
  }

  async function replace(place: Place, edit: OutboxEdit, { delay, keepAttempts }: Rearming): Promise<number> {
    const record = await getAt(place)
    if (record?.state !== 'parked') return 0
    const { lane, entry } = place
    const destination = edit.destination ?? record.destination
    const fields = fieldsOf({ destination, message: edited(record.message, edit), delay }, codec, nextOrder())
    const to = lanes.get(lane.tag, destination).keys
    const keys = [...lane.allKeys, to.stream, lanes.destinationsKey(lane.tag), lanes.wakeKey(lane.tag), to.uncounted]
    const added = await port.evaluate(replaceParked, keys, [group, entry, destination, keepAttempts ? '1' : '0', ...fields])
    return String(added) === '' ? 0 : 1
  }

  async function rearmPlaces(places: readonly Place[], edit: OutboxEdit, rearming: Rearming): Promise<number> {
    if (isEmpty(edit)) {
      const args = [group, String(rearming.delay), rearming.keepAttempts ? '1' : '0']
      const counts = await byLane(places, async (lane, entries) =>
        Number(await port.evaluate(rearmParked, lane.allKeys, [...args, ...entries])),
      )
      return counts.reduce((sum, count) => sum + count, 0)
    }
    let count = 0
    for (const place of places) count += await replace(place, edit, rearming)
    return count
  }

  async function parkedPlaces(filter: OutboxFilter): Promise<readonly Place[]> {
    if (filter.state !== undefined && filter.state !== 'parked') return []
    const ids: string[] = []
    for await (const { record } of matching({ ...filter, state: 'parked' }, undefined)) ids.push(record.id)
    return placesOf(ids)
  }

  return {
    async list(filter, { limit, after }) {
      checkCount('limit', limit)
      const cursor = after === undefined ? undefined : cursorOf(after)
      const found: Listed[] = []
      for await (const one of matching(filter, cursor)) {
        found.push(one)
        if (found.length > limit) break
      }
      const last = found[limit - 1]
      const next = found.length > limit && last !== undefined ? cursorText(last) : undefined
      return { records: found.slice(0, limit).map(({ record }) => record), next }
    },

    async get(id) {
      const place = lanes.find(id)
      return place === undefined ? undefined : await getAt(place)
    },

    async rearm(which, edit = {}, options = {}) {
      const { state = 'parked', delay = 0, keepAttempts = false } = checkRearm(options)
      // A published record is deleted from its stream.
      if (state === 'published') return 0
      const places = 'ids' in which ? placesOf(which.ids) : await parkedPlaces(which.filter)
      const count = await rearmPlaces(places, edit, { delay: Math.ceil(delay), keepAttempts })
      if (count > 0) logger.info({ group, count, state, ...which, edited: Object.keys(edit) }, 'Outbox records were made ready again.')
      return count
    },

    async park(ids, reason) {
      const text = reason.slice(0, maxErrorLength)
      const parked = await byLane(placesOf(ids), async (lane, entries) => {
        const own = asList(await port.evaluate(parkEntries, lane.allKeys, [group, text, ...entries]))
        return own.map((entry) => lane.idOf(String(entry)))
      })
      const all = parked.flat()
      if (all.length > 0) logger.info({ group, reason, parked: all }, 'An operator parked outbox records.')
      return all.length
    },

    async discard(ids, reason) {
      const discarded = await byLane(placesOf(ids), async (lane, entries) => {
        const gone = asList(await port.evaluate(discardParked, lane.allKeys, [group, ...entries]))
        return gone.map((entry) => lane.idOf(String(entry)))
      })
      if (discarded.flat().length > 0) logger.info({ group, reason, discarded: discarded.flat() }, 'Parked outbox records were discarded.')
      return discarded.flat().length
    },

    async stats() {
      const sums = new Map<string, DestinationStats>()
      let oldestAge: number | undefined
      const counting = (await allLanes()).map(async (lane) => {
        const reply = asList(await port.evaluate(countEntries, lane.allKeys, [group]))
        const [ready = 0, waiting = 0, leased = 0, parked = 0, age = -1] = reply.map(Number)
        if (ready + waiting + leased + parked === 0) return
        addStats(sums, { destination: lane.destination, ready, waiting, leased, parked, published: 0 })
        if (age >= 0) oldestAge = Math.max(oldestAge ?? 0, age)
      })
      await Promise.all(counting)
      return { destinations: [...sums.values()], oldestAge }
    },

    /** What is published is gone at once. */
    async deletePublished({ olderThan, limit }) {
      checkDuration('olderThan', olderThan)
      checkCount('limit', limit)
      return 0
    },
  }
}

/** By when it was stored, to the millisecond, then by the order in its process. */
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
    // It is no JSON, or no list.
  }
  throw invalidCursor(after)
}

function numberOf(reply: Reply | undefined): number | undefined {
  const text = String(reply ?? '')
  return text === '' ? undefined : Number(text)
}

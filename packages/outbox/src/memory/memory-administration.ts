import type { Runtime } from '@ackord/core'
import { StatsSum } from '../store/administration.ts'
import { readHistory } from '../store/failure-text.ts'
import type { BaseAdministration } from '../store/note-administration.ts'
import type { OutboxRecord } from '../store/outbox-admin.ts'
import { checkRearm, invalidCursor } from '../store/record-checks.ts'
import type { MemoryClaims } from './memory-claims.ts'
import {
  isCancellable,
  isPending,
  type MemoryRow,
  type MemoryRows,
  matches,
  outboxRecord,
  parkRow,
  rearmRow,
  stateOf,
} from './memory-rows.ts'

/** The operators' side of the in-memory store. */
export function memoryAdministration(rows: MemoryRows, claims: MemoryClaims, runtime: Runtime): BaseAdministration {
  const recordOf = (row: MemoryRow, now: number): OutboxRecord => ({ ...outboxRecord(row, now), partition: claims.partitionOf(row) })

  return {
    async list(filter, page) {
      const after = page.after === undefined ? 0 : cursorOf(page.after)
      const now = runtime.now()
      const records = [...rows.all()]
        .filter((row) => Number(row.id) > after && matches(row, filter, now))
        .slice(0, page.limit + 1)
        .map((row) => recordOf(row, now))
      const more = records.length > page.limit
      const shown = more ? records.slice(0, page.limit) : records
      return { records: shown, next: more ? shown.at(-1)?.id : undefined }
    },

    async get(id) {
      const row = rows.get(id)
      return row === undefined ? undefined : recordOf(row, runtime.now())
    },

    async rearm(which, edit = {}, options = {}) {
      const { state = 'parked' } = checkRearm(options)
      const now = runtime.now()
      const found = 'ids' in which ? rows.find(which.ids) : [...rows.all()].filter((row) => matches(row, which.filter, now))
      const chosen = found.filter((row) => row.state === state)
      for (const row of chosen) rearmRow(row, edit, options, now)
      if (chosen.length > 0) rows.wake()
      return chosen.length
    },

    async park(ids, reason) {
      const now = runtime.now()
      const chosen = rows.find(ids).filter((row) => isPending(row) && !claims.isHeld(row))
      for (const row of chosen) parkRow(row, reason, now)
      return chosen.length
    },

    async discard(ids) {
      const chosen = rows.find(ids).filter((row) => row.state === 'parked')
      for (const row of chosen) rows.delete(row)
      // With order per key, other records may have waited behind them.
      if (chosen.length > 0) rows.wake()
      return chosen.length
    },

    async cancelWaiting(ids) {
      const now = runtime.now()
      const chosen = rows.find([...new Set(ids)]).filter((row) => isCancellable(row, now))
      for (const row of chosen) rows.delete(row)
      // With order per key, other records may have waited behind them.
      if (chosen.length > 0) rows.wake()
      return chosen.length
    },

    async stats({ limit } = {}) {
      const sum = new StatsSum(limit)
      const now = runtime.now()
      for (const row of rows.all()) {
        const state = stateOf(row, now)
        sum.add(row.destination, { [state]: 1 }, isPendingState(row) ? now - row.createdAt : undefined)
      }
      return sum.stats
    },

    async history(id) {
      return readHistory(rows.get(id)?.history)
    },

    async deletePublished({ olderThan, limit }) {
      const before = runtime.now() - olderThan
      const old = [...rows.all()].filter((row) => row.publishedAt !== undefined && row.publishedAt <= before).slice(0, limit)
      for (const row of old) rows.delete(row)
      return old.length
    },
  }
}

function isPendingState({ state }: MemoryRow): boolean {
  return state === 'ready' || state === 'waiting'
}

function cursorOf(after: string): number {
  if (/^[1-9]\d*$/.test(after)) return Number(after)
  throw invalidCursor(after)
}

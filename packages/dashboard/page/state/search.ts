import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { RecordPage, RecordQuery } from '../../src/api/types.ts'
import { errorText, getJson, storePath } from './api.ts'
import { type Loaded, revision } from './loaded.ts'
import { formatRecordQuery } from './record-query.ts'

/** Milliseconds for which a search goes on by itself. */
const searchTime = 2000
/** That of the API. */
const defaultLimit = 50

/** `loading`: whether it is searching. */
export interface Search extends Loaded<RecordPage> {
  /** Whether there are no more records for this page: it is full, or all records have been searched. */
  readonly complete: boolean
  /** Searches on behind what has been searched. */
  searchOn(): void
}

/**
 * Loads a page of records. A large outbox is searched in steps: what was found is there after each step, and after two seconds the search waits for `searchOn()`. It starts again
 * when the query changes, after an action and on `reload()`.
 */
export function useSearch(store: string, query: RecordQuery): Search {
  const found = useSignal<RecordPage | undefined>(undefined)
  const error = useSignal<string | undefined>(undefined)
  const loading = useSignal(true)
  const reloads = useSignal(0)
  const running = useRef(new AbortController())
  const { limit = defaultLimit } = query

  async function search(from: RecordPage | undefined, signal: AbortSignal): Promise<void> {
    const startedAt = performance.now()
    loading.value = true
    try {
      for (let page = from; page === undefined || !isComplete(page, limit); ) {
        if (page !== from && performance.now() - startedAt >= searchTime) break
        const records: RecordPage['records'] = page?.records ?? []
        const step = { ...query, after: page === undefined ? query.after : page.next, limit: limit - records.length }
        const next = await getJson<RecordPage>(storePath(store, `records${formatRecordQuery(step)}`), signal)
        page = { ...next, records: [...records, ...next.records] }
        found.value = page
        error.value = undefined
      }
    } catch (reason) {
      if (signal.aborted) return
      found.value = undefined
      error.value = errorText(reason)
    }
    loading.value = false
  }

  function restart(from: RecordPage | undefined): void {
    running.current.abort()
    running.current = new AbortController()
    void search(from, running.current.signal)
  }

  useEffect(() => {
    restart(undefined)
    return () => running.current.abort()
  }, [store, formatRecordQuery(query), reloads.value, revision.value])

  return {
    data: found.value,
    error: error.value,
    loading: loading.value,
    complete: found.value !== undefined && isComplete(found.value, limit),
    reload() {
      reloads.value += 1
    },
    searchOn() {
      restart(found.value)
    },
  }
}

function isComplete({ records, next }: RecordPage, limit: number): boolean {
  return next === undefined || records.length >= limit
}

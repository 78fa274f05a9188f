import type { OutboxAdmin, OutboxRecord } from '@ackord/outbox'
import { findPartition, matchesFilter } from '@ackord/outbox'
import { searchPages } from '../actions/search-pages.ts'
import { readChoice } from '../api/read-input.ts'
import { readRecordQuery } from '../api/record-query.ts'
import type { AuditEntry, RecordPage } from '../api/types.ts'
import { conflict, notFound } from '../http/api-failure.ts'
import { download, json } from '../http/responses.ts'
import { type Call, findNamed, type Route, type Services, withClientInput } from './route.ts'

const maxAuditEntries = 500
const maxBehind = 20
/** Records of a key that are looked through for those behind a record. */
const maxOfKey = 100
/** Milliseconds by which the clocks of the store and of this process may differ before records are missing in `behind`. */
const clockDifference = 60_000

/** The records of a store, and what its operators did. */
export function recordRoutes({ stores, view, sealed, runtime }: Services): readonly Route[] {
  const storeOf = ({ part }: Call) => findNamed(stores, 'store', part('store'))
  const resolve = (reference: string) => sealed.resolve(reference)

  async function recordOf(call: Call): Promise<OutboxRecord> {
    const record = await storeOf(call).get(call.part('id'))
    if (record === undefined) throw notFound('There is no such record. It may have been published and deleted, or discarded.')
    return record
  }

  async function list(admin: OutboxAdmin, parameters: URLSearchParams): Promise<RecordPage> {
    const { filter, id, after, limit } = readRecordQuery(parameters, resolve)
    if (id === undefined) {
      const { records, next, searchedUntil } = await withClientInput(() =>
        admin.list(filter, { limit, after, payloads: view.needsPayloads }),
      )
      return { records: records.map((record) => view.summary(record)), next, searchedUntil }
    }
    const record = await admin.get(id)
    const found = record !== undefined && matchesFilter({ ...record, attributes: record.message.attributes }, filter, runtime.now())
    return { records: found ? [view.summary(record)] : [], next: undefined }
  }

  /** Records of the same key and destination that were stored later and are not published, and whether all were searched. */
  async function behind(
    admin: OutboxAdmin,
    record: OutboxRecord,
  ): Promise<{ readonly behind: readonly OutboxRecord[]; readonly behindComplete: boolean }> {
    const { destination, createdAt } = record
    const key: unknown = record.message.attributes.partitionkey
    if (key === undefined || key === '') return { behind: [], behindComplete: true }
    // biome-ignore lint/plugin: the other instant came from the store.
    const maxAge = Math.max(0, runtime.now() - createdAt) + clockDifference
    const records: OutboxRecord[] = []
    let behindComplete = true
    const filter = { destination, orderingKey: String(key), maxAge }
    for await (const page of searchPages(admin, filter, { limit: maxOfKey, payloads: view.needsPayloads, runtime })) {
      records.push(...page.records)
      behindComplete = page.next === undefined
      if (records.length >= maxOfKey) break
    }
    const position = records.findIndex(({ id }) => id === record.id)
    const later = position === -1 ? records.filter((each) => each.createdAt >= createdAt) : records.slice(position + 1)
    return { behind: later.filter(({ state }) => state !== 'published').slice(0, maxBehind), behindComplete }
  }

  return [
    {
      method: 'GET',
      path: 'stores/:store/records',
      rights: ['view'],
      answer: async (call) => json(await list(storeOf(call), call.parameters)),
    },
    {
      method: 'GET',
      path: 'stores/:store/records/:id',
      rights: ['view'],
      async answer(call) {
        const admin = storeOf(call)
        const record = await recordOf(call)
        const history = (await admin.history?.(record.id)) ?? []
        const payload = call.identity.rights.includes('payload')
        const partition = await findPartition(admin, record)
        return json(view.detail(record, { payload, history, partition, ...(await behind(admin, record)) }))
      },
    },
    {
      method: 'GET',
      path: 'stores/:store/records/:id/payload',
      rights: ['view', 'payload'],
      async answer(call) {
        const record = await recordOf(call)
        const payload = view.payload(record)
        if (payload === undefined) throw conflict('not_redacted', 'The payload could not be redacted, and is not shown.')
        return download(payload, fileName(record.id))
      },
    },
    {
      method: 'GET',
      path: 'stores/:store/groups',
      rights: ['view'],
      async answer(call) {
        const parameters = new URLSearchParams(call.parameters)
        const by = readChoice(parameters.get('by'), 'by', ['failure', 'type', 'destination'])
        parameters.delete('by')
        const { filter } = readRecordQuery(parameters, resolve)
        const found = await storeOf(call).groups?.(by, filter)
        return json(view.groups(by, found ?? { groups: [], complete: true }))
      },
    },
    {
      method: 'GET',
      path: 'stores/:store/audit',
      rights: ['view'],
      async answer(call) {
        const entries: readonly AuditEntry[] = (await storeOf(call).audit?.({ limit: maxAuditEntries })) ?? []
        return json({ entries: entries.map((entry) => view.auditEntry(entry)) })
      },
    },
  ]
}

/** The id only if it is harmless in a header and as the name of a file. */
function fileName(id: string): string {
  return /^[\w-]{1,64}$/.test(id) ? `payload-${id}.bin` : 'payload.bin'
}

import { MemoryOutboxStore, type OutboxAdmin } from '@ackord/outbox'
import { recordingLogger, VirtualRuntime } from '@ackord/testkit'
import { expect, it } from 'vitest'
import { fullPage } from '../../src/output/records.ts'
import { record } from '../support/services.ts'

const second = 1000

/** A store of 20 records, of which each fourth is `paid`. A page reads two of them, and takes a second. */
async function openSlowStore() {
  const runtime = new VirtualRuntime()
  const store = new MemoryOutboxStore({ runtime })
  const transaction = store.begin()
  const typeOf = (index: number) => (index % 4 === 3 ? 'order.paid' : 'order.placed')
  await store.append(
    transaction,
    Array.from({ length: 20 }, (_, index) => record('orders', `e${index}`, { type: typeOf(index) })),
  )
  transaction.commit()
  const list: OutboxAdmin['list'] = async ({ type }, { limit, after }) => {
    const { records, next } = await store.list({}, { limit: Math.min(2, limit), after })
    await runtime.advance(second)
    return {
      records: records.filter(({ message }) => message.type === type),
      next,
      searchedUntil: records.at(-1)?.createdAt,
    }
  }
  return { admin: { list }, runtime }
}

const idsOf = ({ records }: Awaited<ReturnType<OutboxAdmin['list']>>) => records.map(({ message }) => message.id)
const { signal } = new AbortController()

it('a page is read until it is full or the search has ended, and continues behind its last record', async () => {
  const { admin, runtime } = await openSlowStore()
  const options = { logger: recordingLogger(), signal, runtime }
  const first = await fullPage(admin, { type: 'order.paid' }, { limit: 3 }, options)
  expect(idsOf(first)).toEqual(['e3', 'e7', 'e11'])
  const second = await fullPage(admin, { type: 'order.paid' }, { limit: 3, after: first.next }, options)
  expect([idsOf(second), second.next]).toEqual([['e15', 'e19'], undefined])
  expect(await fullPage(admin, { type: 'none' }, { limit: 3 }, options)).toEqual({ records: [], next: undefined })
})

it('a search says every two seconds how far it is', async () => {
  const { admin, runtime } = await openSlowStore()
  const logger = recordingLogger()
  const storedAt = new Date(runtime.now()).toISOString()
  await fullPage(admin, { type: 'order.paid' }, { limit: 10 }, { logger, signal, runtime })
  expect(logger.at('info')).toMatchObject(
    [1, 2, 3, 4].map((found) => ({ text: 'Still searching.', fields: { found, searched_until: storedAt } })),
  )
})

it('a search ends when the command is stopped', async () => {
  const { admin, runtime } = await openSlowStore()
  const stopping = AbortSignal.abort(new Error('Ctrl-C'))
  await expect(fullPage(admin, {}, { limit: 10 }, { logger: recordingLogger(), signal: stopping, runtime })).rejects.toThrow('Ctrl-C')
})

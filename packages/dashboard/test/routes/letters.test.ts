import { Message } from '@ackord/core'
import { deferred, settlePromises } from '@ackord/testkit'
import { expect, it } from 'vitest'
import type { DeadLetter, DeadLetterDetail, DeadLetterPort, DeadLetterSummary } from '../../src/index.ts'
import { codeOf, everyRight, openWorld, withFunctions } from '../support/world.ts'

const letter: DeadLetter = {
  position: '1-0',
  message: new Message(new TextEncoder().encode('{"card":"4111"}'), { id: 'a', type: 'order.placed', subject: 'card 4111' }),
  origin: 'orders',
  reason: '<script>alert(1)</script>',
  failedAt: 1_700_000_000_000,
  problem: undefined,
}

const nameless: DeadLetter = { ...letter, position: '2-0', message: new Message(new Uint8Array([255])), problem: 'it has no attributes' }

interface Letters {
  readonly letters: readonly DeadLetterDetail[]
}

function portOf(more: Partial<DeadLetterPort> = {}): DeadLetterPort {
  const all = [letter, nameless]
  return {
    list: async ({ limit }) => ({ letters: all.slice(0, limit), count: 12 }),
    find: async (id) => all.filter(({ message, position }) => (message.id ?? position) === id),
    preview: async (ids) => ({ count: ids?.length ?? 11, skipped: 1, destinations: ['orders'], capped: ids === undefined }),
    replay: async (ids) => ids?.length ?? 12,
    ...more,
  }
}

it('letters are listed without their payloads', async () => {
  await using world = await openWorld({ deadLetters: { orders: portOf() } })
  const { body } = await world.client.get<Letters & { readonly count: number }>('dead-letters/orders')
  const { message: _, problem: __, ...shown } = letter
  expect(body).toEqual({
    letters: [
      { ...shown, id: 'a', messageId: 'a', type: 'order.placed', size: 15 },
      { ...shown, id: '2-0', position: '2-0', problem: 'it has no attributes', size: 1 },
    ],
    count: 12,
  })
  expect(codeOf(await world.client.get('dead-letters/other'))).toBe('404 not_found')
})

it('a letter is shown with its attributes, and with its payload to those who may see payloads', async () => {
  await using world = await openWorld({ deadLetters: { orders: portOf() } })
  const path = 'dead-letters/orders/letters/a'
  expect((await world.client.get<Letters>(path)).body.letters).toMatchObject([
    { attributes: { id: 'a', subject: 'card 4111' }, payload: { kind: 'json', content: '{"card":"4111"}' }, origin: 'orders' },
  ])
  const [seen] = (await world.as('bob', ['view']).get<Letters>(path)).body.letters
  expect(seen).not.toHaveProperty('payload')
  expect((await world.client.get<Letters>('dead-letters/orders/letters/2-0')).body.letters).toMatchObject([{ payload: { kind: 'binary' } }])
  expect(codeOf(await world.client.get('dead-letters/orders/letters/b'))).toBe('404 not_found')
})

it('letters are redacted like records, and can be found and replayed nevertheless', async () => {
  const replayed: (readonly string[] | undefined)[] = []
  const port = portOf({
    async replay(ids) {
      replayed.push(ids)
      return 1
    },
  })
  await using world = await openWorld({
    deadLetters: { orders: port },
    redact: (record) => ({
      ...record,
      message: record.message.copy(new TextEncoder().encode('***')).withAttributes({ id: '***', subject: '***' }),
      lastError: '***',
    }),
  })
  const { letters } = (await world.client.get<{ readonly letters: readonly DeadLetterSummary[] }>('dead-letters/orders')).body
  expect(letters[0]).toMatchObject({ position: '1-0', messageId: '***', reason: '***', origin: 'orders', size: 3 })
  expect(letters[1]).toMatchObject({ id: '2-0', problem: '***' })
  const id = letters[0]?.id ?? ''
  expect(id).toMatch(/^redacted:/)
  const found = (await world.client.get<Letters>(`dead-letters/orders/letters/${encodeURIComponent(id)}`)).body.letters
  expect(found).toMatchObject([{ attributes: { subject: '***' }, payload: { content: '***' } }])
  expect(JSON.stringify([letters, found])).not.toContain('4111')

  await world.client.post('dead-letters/orders/replay', { ids: [id], reason: 'fixed' })
  await settlePromises()
  expect(replayed).toEqual([['a']])
})

it('a replay is previewed', async () => {
  await using world = await openWorld({ deadLetters: { orders: portOf() } })
  const path = 'dead-letters/orders/preview'
  expect((await world.client.post(path, { reason: 'r' })).body).toEqual({ count: 11, skipped: 1, destinations: ['orders'], capped: true })
  expect((await world.client.post(path, { ids: ['a', 'b'], reason: 'r' })).body).toMatchObject({ count: 2, capped: false })
  expect(codeOf(await world.client.post(path, { ids: [], reason: 'r' }))).toBe('400 invalid')
})

it('letters are replayed by a job that shows its progress and can be stopped', async () => {
  const stopped = deferred()
  const calls: unknown[] = []
  const port = portOf({
    async replay(ids, { signal, onProgress }) {
      calls.push(ids)
      signal.addEventListener('abort', () => stopped.resolve())
      onProgress(1)
      await stopped.promise
      return 2
    },
  })
  await using world = await openWorld({ deadLetters: { orders: port } })
  const { body } = await world.client.post('dead-letters/orders/replay', { ids: ['a', 'b', 'c'], reason: 'fixed' })
  await settlePromises()
  expect((await world.client.get(`jobs/${body.id}`)).body).toMatchObject({ action: 'replay', state: 'running', count: 1, total: 3 })
  await world.client.post(`jobs/${body.id}/stop`, {})
  await settlePromises()

  expect((await world.client.get(`jobs/${body.id}`)).body).toMatchObject({ state: 'stopped', count: 2 })
  expect(calls).toEqual([['a', 'b', 'c']])
  expect(world.actions).toMatchObject([{ by: 'ann', action: 'replay', store: 'orders', what: 'a, b, c', count: 2, result: 'stopped' }])
})

it('a replay of all letters is in the audit of the first store, in the log and in onAction', async () => {
  await using world = await openWorld({ deadLetters: { orders: portOf() } })
  const { body } = await world.client.post('dead-letters/orders/replay', { reason: 'fixed' })
  await settlePromises()

  expect((await world.client.get(`jobs/${body.id}`)).body).toEqual({ id: body.id, action: 'replay', state: 'done', count: 12 })
  expect((await world.client.get('stores/shop/audit')).body).toMatchObject({
    entries: [{ action: 'replay', by: 'ann', what: 'dead letters of orders: all', count: 12, reason: 'fixed' }],
  })
  expect(world.actions).toMatchObject([{ action: 'replay', what: 'all' }])
})

it('letters are replayed beside a store that cannot keep an audit', async () => {
  await using world = await openWorld()
  const stores = { shop: withFunctions(world.store, { audited: undefined }) }
  await using other = await openWorld({ stores, deadLetters: { orders: portOf() } })
  const { body } = await other.client.post('dead-letters/orders/replay', { reason: 'fixed' })
  await settlePromises()
  expect((await other.client.get(`jobs/${body.id}`)).body).toMatchObject({ state: 'done', count: 12 })
  expect(other.actions).toMatchObject([{ action: 'replay', what: 'all', result: 'done' }])
})

it('letters are replayed only with the right to re-arm, by a dashboard that may write, with a reason', async () => {
  const deadLetters = { orders: portOf() }
  await using world = await openWorld({ deadLetters })
  await using readOnly = await openWorld({ deadLetters, readOnly: true })
  const others = everyRight.filter((right) => right !== 'rearm')
  const path = 'dead-letters/orders/replay'

  expect(codeOf(await world.as('bob', others).post(path, { reason: 'r' }))).toBe('403 forbidden')
  expect(codeOf(await readOnly.client.post(path, { reason: 'r' }))).toBe('403 read_only')
  for (const body of [{}, { reason: '' }, { reason: 'r', ids: [] }, { reason: 'r', messageIds: ['a'] }])
    expect(codeOf(await world.client.post(path, body))).toBe('400 invalid')
  expect(codeOf(await world.client.post('dead-letters/other/replay', { reason: 'r' }))).toBe('404 not_found')
})

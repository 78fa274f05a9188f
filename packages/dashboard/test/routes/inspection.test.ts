import { InvalidOptionError } from '@ackord/core'
import type { InboxAdmin, InboxEntry, InboxQuery } from '@ackord/outbox'
import { deferred, settlePromises } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import type { DeadLetterPort, DeadLetterSummary, DoctorCheck } from '../../src/index.ts'
import { codeOf, everyRight, openWorld } from '../support/world.ts'

describe('an inbox', () => {
  const entry: InboxEntry = { consumer: 'mail', source: '/shop', id: 'm 1', state: 'handled', handledAt: 5, expiresAt: undefined }

  function inboxOf(queries: unknown[]): InboxAdmin {
    return {
      async find(id: string, query?: InboxQuery) {
        queries.push([id, query])
        if (query?.consumer === undefined) throw new InvalidOptionError('consumer', 'is required by this store.')
        return [entry]
      },
      forget: async () => 0,
    }
  }

  it('is asked for a message', async () => {
    const queries: unknown[] = []
    await using world = await openWorld({ inboxes: { mail: inboxOf(queries) } })

    expect((await world.client.get('inboxes/mail?id=m%201&consumer=mail')).body).toEqual({
      entries: [{ consumer: 'mail', source: '/shop', id: 'm 1', state: 'handled', handledAt: 5 }],
    })
    await world.client.get('inboxes/mail?id=m&consumer=mail&source=')
    expect(queries).toEqual([
      ['m 1', { consumer: 'mail', source: undefined }],
      ['m', { consumer: 'mail', source: '' }],
    ])
    expect(await world.client.session()).toMatchObject({ inboxes: ['mail'] })
  })

  it.each(['', 'id=', 'id=1&colour=red', `id=${'x'.repeat(1001)}`, 'id=1'])('refuses the query "%s"', async (query) => {
    await using world = await openWorld({ inboxes: { mail: inboxOf([]) } })
    expect(codeOf(await world.client.get(`inboxes/mail?${query}`))).toBe('400 invalid')
  })

  it('that does not exist is not found', async () => {
    await using world = await openWorld()
    expect(codeOf(await world.client.get('inboxes/mail?id=1'))).toBe('404 not_found')
  })
})

describe('dead letters', () => {
  const letter: DeadLetterSummary = {
    position: '1-0',
    messageId: 'a',
    type: 'order.placed',
    origin: 'orders',
    reason: '<script>alert(1)</script>',
    size: 7,
    problem: undefined,
  }

  function portOf(replay: DeadLetterPort['replay']): DeadLetterPort {
    return { list: async ({ limit }) => ({ letters: [letter].slice(0, limit), count: 12 }), replay }
  }

  it('are listed', async () => {
    await using world = await openWorld({ deadLetters: { orders: portOf(async () => 0) } })
    expect((await world.client.get('dead-letters/orders')).body).toEqual(JSON.parse(JSON.stringify({ letters: [letter], count: 12 })))
    expect(codeOf(await world.client.get('dead-letters/other'))).toBe('404 not_found')
  })

  it('are replayed by a job that shows its progress and can be stopped', async () => {
    const stopped = deferred()
    const calls: unknown[] = []
    const port = portOf(async (messageIds, { signal, onProgress }) => {
      calls.push(messageIds)
      signal.addEventListener('abort', () => stopped.resolve())
      onProgress(1)
      await stopped.promise
      return 2
    })
    await using world = await openWorld({ deadLetters: { orders: port } })
    const { body } = await world.client.post('dead-letters/orders/replay', { messageIds: ['a', 'b', 'c'], reason: 'fixed' })
    expect(body).toMatchObject({ action: 'replay', state: 'running', count: 1, total: 3 })
    await world.client.post(`jobs/${body.id}/stop`, {})
    await settlePromises()

    expect((await world.client.get(`jobs/${body.id}`)).body).toMatchObject({ state: 'stopped', count: 2 })
    expect(calls).toEqual([['a', 'b', 'c']])
    expect(world.actions).toMatchObject([{ by: 'ann', action: 'replay', store: 'orders', what: 'a, b, c', count: 2, result: 'stopped' }])
  })

  it('are replayed as a whole', async () => {
    const calls: unknown[] = []
    const port = portOf(async (messageIds) => {
      calls.push(messageIds)
      return 12
    })
    await using world = await openWorld({ deadLetters: { orders: port } })
    const { body } = await world.client.post('dead-letters/orders/replay', { reason: 'fixed' })
    await settlePromises()

    expect((await world.client.get(`jobs/${body.id}`)).body).toEqual({ id: body.id, action: 'replay', state: 'done', count: 12 })
    expect([calls, world.actions]).toMatchObject([[undefined], [{ what: 'all' }]])
  })

  it('are replayed only with the right to re-arm, by a dashboard that may write, with a reason', async () => {
    const deadLetters = { orders: portOf(async () => 0) }
    await using world = await openWorld({ deadLetters })
    await using readOnly = await openWorld({ deadLetters, readOnly: true })
    const others = everyRight.filter((right) => right !== 'rearm')
    const path = 'dead-letters/orders/replay'

    expect(codeOf(await world.as('bob', others).post(path, { reason: 'r' }))).toBe('403 forbidden')
    expect(codeOf(await readOnly.client.post(path, { reason: 'r' }))).toBe('403 read_only')
    for (const body of [{}, { reason: '' }, { reason: 'r', messageIds: [] }, { reason: 'r', ids: ['a'] }])
      expect(codeOf(await world.client.post(path, body))).toBe('400 invalid')
    expect(codeOf(await world.client.post('dead-letters/other/replay', { reason: 'r' }))).toBe('404 not_found')
  })
})

describe('the doctor', () => {
  const check: DoctorCheck = { store: 'shop', title: 'clock', result: 'ok', text: 'The clocks agree.' }

  it('runs once for all who ask at the same time', async () => {
    const checked = deferred<readonly DoctorCheck[]>()
    let runs = 0
    const doctor = () => {
      runs += 1
      return checked.promise
    }
    await using world = await openWorld({ doctor, readOnly: true })
    const asking = [world.client.post('doctor', {}), world.as('bob', ['view']).post('doctor', {})]
    await settlePromises()
    checked.resolve([check])

    for (const { body } of await Promise.all(asking)) expect(body).toEqual({ checks: [check] })
    expect(runs).toBe(1)
    await world.client.post('doctor', {})
    expect(runs).toBe(2)
    expect(codeOf(await world.as('bob', ['rearm']).post('doctor', {}))).toBe('403 forbidden')
  })

  it('that throws is an error without details', async () => {
    await using world = await openWorld({
      doctor: () => {
        throw new Error('hunter2')
      },
    })
    expect(codeOf(await world.client.post('doctor', {}))).toBe('500 internal')
    expect(codeOf(await world.client.post('doctor', {}))).toBe('500 internal')
  })

  it('that is not configured cannot run', async () => {
    await using world = await openWorld()
    expect(codeOf(await world.client.post('doctor', {}))).toBe('409 unsupported')
  })
})

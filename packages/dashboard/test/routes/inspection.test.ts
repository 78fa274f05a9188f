import { InvalidOptionError } from '@ackord/core'
import type { InboxAdmin, InboxEntry, InboxQuery } from '@ackord/outbox'
import { deferred, settlePromises } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import type { DoctorCheck } from '../../src/index.ts'
import { codeOf, openWorld } from '../support/world.ts'

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

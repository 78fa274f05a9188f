import { Message } from '@ackord/core'
import type { MemoryOutboxStore, OutboxAdmin } from '@ackord/outbox'
import { deferred, settlePromises } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import type { Job, Preview, Right } from '../../src/api/types.ts'
import { shortPages } from '../support/short-pages.ts'
import { append, appendParked, codeOf, everyRight, openWorld, settle, type World, withFunctions } from '../support/world.ts'

const actionsPath = 'stores/shop/actions'
const many = (count: number, more: { readonly destination?: string; readonly key?: string } = {}) =>
  Array.from({ length: count }, (_, index) => ({ id: `m${index}`, ...more }))

async function statesOf({ store }: World): Promise<Record<string, number>> {
  const { records } = await store.list({}, { limit: 100_000 })
  const states: Record<string, number> = {}
  for (const { state } of records) states[state] = (states[state] ?? 0) + 1
  return states
}

/** The job when it has ended. Jobs of the memory store need only promises to run. */
async function endOf(world: World, { id }: Job): Promise<Job> {
  for (;;) {
    const { body } = await world.client.get<Job>(`jobs/${id}`)
    if (body.state !== 'running') return body
    await settlePromises()
  }
}

/** The store with `before` called before each step of an action on a filter. */
function withSteps(store: MemoryOutboxStore, before: () => Promise<void> | void): OutboxAdmin {
  const audited: OutboxAdmin['audited'] = (entry, work) =>
    store.audited(entry, ({ rearm, park, discard, cancelWaiting }) => {
      const after =
        <Given extends unknown[]>(step: (...given: Given) => Promise<number>) =>
        async (...given: Given) => {
          await before()
          return await step(...given)
        }
      return work({ rearm: after(rearm), park: after(park), discard: after(discard), cancelWaiting: after(cancelWaiting) })
    })
  return withFunctions(store, { audited })
}

describe('an action on ids', () => {
  it('re-arms parked records', async () => {
    await using world = await openWorld()
    await appendParked(world.store, ...many(3))
    const { status, body } = await world.client.post(actionsPath, {
      action: 'rearm',
      which: { ids: ['1', '3', '3', '99'] },
      reason: ' The broker is back. ',
    })

    expect([status, body]).toEqual([200, { id: expect.any(String), state: 'done', action: 'rearm', count: 2, total: 3 }])
    expect(await statesOf(world)).toEqual({ ready: 2, parked: 1 })
    const action = { by: 'ann', action: 'rearm', store: 'shop', what: '1, 3, 99', count: 2, reason: 'The broker is back.', result: 'done' }
    expect(world.actions).toEqual([{ ...action, error: undefined }])
    expect(world.logger.at('info')).toEqual([{ level: 'info', fields: expect.objectContaining(action), text: expect.any(String) }])
    expect(await world.store.audit({ limit: 5 })).toMatchObject([{ by: 'ann', reason: 'The broker is back.', count: 2 }])
  })

  it('publishes kept records again', async () => {
    await using world = await openWorld()
    await append(world.store, ...many(2))
    await settle(world.store, { result: 'published' })
    const { body } = await world.client.post(actionsPath, { action: 'rearm', which: { ids: ['1'] }, state: 'published', reason: 'lost' })

    expect(body).toMatchObject({ state: 'done', count: 1 })
    expect(await statesOf(world)).toEqual({ ready: 1, published: 1 })
    expect((await world.store.get('1'))?.message.attributes).toMatchObject({ id: 'm0', replayed: true })
  })

  it('edits a record while it is re-armed', async () => {
    await using world = await openWorld()
    await appendParked(world.store, { id: 'a', attributes: { extra: 'x' } })
    const edit = { destination: 'mail', attributes: { subject: 'new', extra: null }, payload: { kind: 'json', content: '{"é":1}' } }
    const { body } = await world.client.post(actionsPath, { action: 'rearm', which: { ids: ['1'] }, edit, reason: 'wrong address' })

    expect(body).toMatchObject({ state: 'done', count: 1 })
    const record = await world.store.get('1')
    expect(record).toMatchObject({ state: 'ready', destination: 'mail' })
    expect(record?.message.attributes).toMatchObject({ subject: 'new' })
    expect(record?.message.attributes).not.toHaveProperty('extra')
    expect(Buffer.from(record?.message.data ?? []).toString()).toBe('{"é":1}')
  })

  it('writes a payload of bytes', async () => {
    await using world = await openWorld()
    await appendParked(world.store, { id: 'a' })
    const edit = { payload: { kind: 'binary', content: '//4=' } }
    await world.client.post(actionsPath, { action: 'rearm', which: { ids: ['1'] }, edit, reason: 'r' })

    expect([...((await world.store.get('1'))?.message.data ?? [])]).toEqual([0xff, 0xfe])
  })

  it('discards and parks', async () => {
    await using world = await openWorld()
    await appendParked(world.store, ...many(2))
    await append(world.store, ...many(2))
    expect(
      (await world.client.post(actionsPath, { action: 'discard', which: { ids: ['1', '3'] }, reason: 'test data' })).body,
    ).toMatchObject({
      count: 1,
    })
    expect((await world.client.post(actionsPath, { action: 'park', which: { ids: ['3', '4'] }, reason: 'look first' })).body).toMatchObject(
      {
        count: 2,
      },
    )

    expect(await statesOf(world)).toEqual({ parked: 3 })
    expect(await world.store.get('4')).toMatchObject({ lastError: 'look first' })
  })

  it('cancels waiting records, chosen by id or by filter, and no others', async () => {
    await using world = await openWorld()
    await appendParked(world.store, { id: 'parked' })
    const delayed = async (destination: string) => {
      const transaction = world.store.begin()
      const message = new Message(new Uint8Array(), { id: destination, type: 't', source: '/s', specversion: '1.0' })
      await world.store.append(transaction, { destination, message, delay: 60_000 })
      transaction.commit()
    }
    for (const destination of ['orders', 'mail', 'mail']) await delayed(destination)
    await world.runtime.advance(10)
    const chosen = { action: 'cancel', which: { ids: ['1', '2'] }, reason: 'paid' }
    expect((await world.client.post('stores/shop/preview', chosen)).body).toEqual({ count: 1, capped: false })
    expect((await world.client.post(actionsPath, chosen)).body).toMatchObject({ action: 'cancel', count: 1 })
    const all = { action: 'cancel', which: { filter: {} }, reason: 'campaign over' }
    expect((await world.client.post('stores/shop/preview', all)).body).toEqual({ count: 2, capped: false })
    expect(await endOf(world, (await world.client.post<Job>(actionsPath, all)).body)).toMatchObject({ count: 2 })
    expect(await statesOf(world)).toEqual({ parked: 1 })
    const audit = (await world.store.audit({ limit: 5 })).map(({ action, by, count }) => [action, by, count])
    expect(audit.filter(([action]) => action === 'cancel').toSorted((one, other) => Number(one[2]) - Number(other[2]))).toEqual([
      ['cancel', 'ann', 1],
      ['cancel', 'ann', 2],
    ])
  })

  it('are refused if the store cannot cancel', async () => {
    const names = ['list', 'get', 'rearm', 'park', 'discard', 'stats', 'deletePublished']
    const methods: unknown = Object.fromEntries(names.map((name) => [name, () => Promise.resolve([])]))
    await using world = await openWorld({ stores: { shop: methods as OutboxAdmin } })
    const answer = await world.client.post(actionsPath, { action: 'cancel', which: { ids: ['1'] }, reason: 'r' })
    expect(codeOf(answer)).toBe('409 unsupported')
  })

  it('pauses and resumes a destination', async () => {
    await using world = await openWorld()
    const pause = { action: 'pause', destination: 'orders', duration: 60_000, reason: 'maintenance' }
    expect((await world.client.post(actionsPath, pause)).body).toMatchObject({ state: 'done', count: 1 })
    expect(await world.store.pauses()).toMatchObject([{ destination: 'orders', by: 'ann', reason: 'maintenance' }])
    expect((await world.client.get('overview')).body).toMatchObject({ stores: [{ destinations: [] }] })
    // The first rounds read one part each.
    await world.client.get('overview')
    await world.runtime.advance(6000)
    expect((await world.client.get('overview')).body).toMatchObject({
      stores: [{ destinations: [{ destination: 'orders', paused: { by: 'ann', until: world.runtime.now() - 6000 + 60_000 } }] }],
    })

    const resume = { action: 'resume', destination: 'orders', reason: 'done' }
    expect((await world.client.post(actionsPath, resume)).body).toMatchObject({ state: 'done', count: 1 })
    // Read in the next round, because the action has changed it.
    await world.runtime.advance(2000)
    expect((await world.client.get('overview')).body).toMatchObject({ stores: [{ destinations: [] }] })
    expect((await world.client.post(actionsPath, resume)).body).toMatchObject({ state: 'done', count: 0 })
  })

  it('is answered after five seconds although the store is still busy', async () => {
    const busy = deferred<number>()
    await using world = await openWorld()
    await using slow = await openWorld({ stores: { shop: withFunctions(world.store, { rearm: () => busy.promise }) } })
    const answering = slow.client.post(actionsPath, { action: 'rearm', which: { ids: ['1'] }, reason: 'r' })
    await settlePromises()
    await slow.runtime.advance(5000)
    const { body } = await answering
    expect(body).toMatchObject({ state: 'running', count: 0, total: 1 })
    busy.resolve(1)

    expect(await endOf(slow, body)).toMatchObject({ state: 'done', count: 1 })
  })

  it('that fails is logged and reported, without the secrets in its error', async () => {
    await using world = await openWorld()
    const rearm = () => Promise.reject(new Error('Cannot reach postgres://me:hunter2@db/'))
    await using failing = await openWorld({ stores: { shop: withFunctions(world.store, { rearm }) } })
    const { status, body } = await failing.client.post(actionsPath, { action: 'rearm', which: { ids: ['1'] }, reason: 'r' })

    expect([status, body]).toEqual([200, expect.objectContaining({ state: 'failed', count: 0, error: 'Cannot reach postgres://db/' })])
    expect(failing.actions).toMatchObject([{ result: 'failed', count: 0, error: 'Cannot reach postgres://db/' }])
    expect(failing.logger.at('error')).toMatchObject([{ fields: { by: 'ann', action: 'rearm', result: 'failed' } }])
  })

  it('is done although onAction fails', async () => {
    const onAction = () => Promise.reject(new Error('no mail server'))
    await using world = await openWorld({ onAction })
    await appendParked(world.store, { id: 'a' })

    expect((await world.client.post(actionsPath, { action: 'discard', which: { ids: ['1'] }, reason: 'r' })).body).toMatchObject({
      state: 'done',
    })
    await settlePromises()
    expect(world.logger.at('error')).toMatchObject([{ fields: { err: { message: 'no mail server' } } }])
  })
})

describe('an action on a filter', () => {
  it.each([
    ['rearm', { ready: 1201, parked: 7 }],
    ['discard', { ready: 1, parked: 7 }],
  ] as const)('%ss in steps', async (action, expected) => {
    await using world = await openWorld()
    await appendParked(world.store, ...many(1200), ...many(7, { destination: 'mail' }))
    await append(world.store, { id: 'ready' })
    const { body } = await world.client.post(actionsPath, { action, which: { filter: { destination: 'orders' } }, reason: 'r' })
    expect(body).toMatchObject({ state: 'running', count: 0 })

    expect(await endOf(world, body)).toEqual({ ...body, state: 'done', count: 1200, total: 1200 })
    expect(await statesOf(world)).toEqual(expected)
    expect(world.actions).toMatchObject([{ action, what: '{"destination":"orders","state":"parked"}', count: 1200, result: 'done' }])
    // One entry, not one per step of 500.
    expect(await world.store.audit({ limit: 10 })).toMatchObject([
      { action, by: 'ann', what: '{"destination":"orders","state":"parked"}', reason: 'r', count: 1200 },
    ])
  })

  it('shows its progress, and is stopped after its step', async () => {
    await using world = await openWorld()
    await appendParked(world.store, ...many(1600))
    const steps = [deferred(), deferred(), deferred()]
    let step = 0
    const shop = withSteps(world.store, async () => {
      await steps[step]?.promise
      step += 1
    })
    await using stepped = await openWorld({ stores: { shop } })
    const { body } = await stepped.client.post(actionsPath, { action: 'rearm', which: { filter: {} }, reason: 'r' })
    steps[0]?.resolve()
    await settlePromises()
    expect((await stepped.client.get<Job>(`jobs/${body.id}`)).body).toMatchObject({ state: 'running', count: 500, total: 1600 })
    expect((await stepped.client.post(`jobs/${body.id}/stop`, {})).body).toMatchObject({ state: 'running', count: 500 })
    steps[1]?.resolve()

    expect(await endOf(stepped, body)).toMatchObject({ state: 'stopped', count: 1000 })
    expect((await stepped.client.post(`jobs/${body.id}/stop`, {})).body).toMatchObject({ state: 'stopped', count: 1000 })
    expect(await statesOf(world)).toEqual({ ready: 1000, parked: 600 })
    expect(stepped.actions).toMatchObject([{ result: 'stopped', count: 1000 }])
    expect(await world.store.audit({ limit: 10 })).toMatchObject([{ action: 'rearm', count: 1000, what: '{"state":"parked"}' }])
  })

  it('that fails in the middle says how far it came', async () => {
    await using world = await openWorld()
    await appendParked(world.store, ...many(1200))
    let calls = 0
    const shop = withSteps(world.store, () => {
      calls += 1
      if (calls === 3) throw new Error('The connection was lost.')
    })
    await using failing = await openWorld({ stores: { shop } })
    const { body } = await failing.client.post(actionsPath, { action: 'discard', which: { filter: {} }, reason: 'r' })

    expect(await endOf(failing, body)).toMatchObject({ state: 'failed', count: 1000, total: 1200, error: 'The connection was lost.' })
    expect(failing.actions).toMatchObject([{ result: 'failed', count: 1000 }])
    expect(await statesOf(world)).toEqual({ parked: 200 })
    expect(await world.store.audit({ limit: 10 })).toMatchObject([{ action: 'discard', count: 1000, error: 'The connection was lost.' }])
  })

  it('re-arms a key in its order', async () => {
    await using world = await openWorld()
    await appendParked(world.store, ...many(700, { key: 'k' }), ...many(3, { key: 'j' }))
    const { body } = await world.client.post(actionsPath, { action: 'rearm', which: { filter: { orderingKey: 'k' } }, reason: 'r' })

    expect(await endOf(world, body)).toMatchObject({ count: 700 })
    const claimed = await world.store.claim({ limit: 1000, lease: 1000 })
    expect(claimed.map(({ message }) => message.id)).toEqual(many(700).map(({ id }) => id))
  })

  it.each(['rearm', 'discard'] as const)('leaves records out that are parked after its preview: %s', async (action) => {
    await using world = await openWorld()
    await append(world.store, { id: 'late' })
    const [late] = await world.store.claim({ limit: 1, lease: 60_000 })
    await appendParked(world.store, ...many(3))
    await world.runtime.advance(20_000)
    if (late !== undefined) await world.store.settle([{ id: late.id, token: late.token, result: 'parked', error: 'refused' }])
    await world.runtime.advance(10_000)
    const { body } = await world.client.post(actionsPath, { action, which: { filter: {} }, previewAge: 15_000, reason: 'r' })

    expect(await endOf(world, body)).toMatchObject({ state: 'done', count: 3 })
    expect(await world.store.find({ messageId: 'late' })).toMatchObject([{ state: 'parked' }])
  })

  it.each(['rearm', 'discard'] as const)('leaves records out that are parked while it runs: %s', async (action) => {
    await using world = await openWorld()
    await appendParked(world.store, ...many(600))
    const shop = withFunctions(world.store, {
      async list(...given) {
        await world.runtime.advance(1)
        const page = await world.store.list(...given)
        await world.runtime.advance(1)
        await appendParked(world.store, { id: 'late' })
        return page
      },
    })
    await using other = await openWorld({ stores: { shop }, runtime: world.runtime })
    const { body } = await other.client.post(actionsPath, { action, which: { filter: {} }, reason: 'r' })

    expect(await endOf(other, body)).toMatchObject({ state: 'done', count: 600 })
  })

  it('ends although each edited record is stored behind the others and parked again at once, as in a Redis stream', async () => {
    await using world = await openWorld()
    await appendParked(world.store, ...many(1200))
    let edits = 0
    const rearm: OutboxAdmin['rearm'] = async (which, edit, options) => {
      edits += 1
      if (edits > 10) throw new Error('The action does not end.')
      const ids = 'ids' in which ? which.ids : []
      await world.runtime.advance(1)
      await world.store.discard(ids, 'replaced', options)
      await appendParked(world.store, ...ids.map((id) => ({ id: `again ${id}`, destination: edit?.destination ?? 'orders' })))
      return ids.length
    }
    const shop = withFunctions(world.store, {
      audited: (entry, work) => world.store.audited(entry, (steps) => work({ ...steps, rearm })),
    })
    await using other = await openWorld({ stores: { shop }, runtime: world.runtime })
    const edit = { destination: 'mail', attributes: { subject: 'new' } }
    const { body } = await other.client.post(actionsPath, { action: 'rearm', which: { filter: {} }, edit, reason: 'r' })

    expect(await endOf(other, body)).toMatchObject({ state: 'done', count: 1200 })
    expect(edits).toBe(3)
  })

  it('selects records by their age when it was previewed', async () => {
    await using world = await openWorld()
    await appendParked(world.store, { id: 'old' })
    await world.runtime.advance(10_000)
    await appendParked(world.store, { id: 'new' })
    await world.runtime.advance(5000)
    const act = async (filter: object) => {
      const { body } = await world.client.post(actionsPath, { action: 'rearm', which: { filter }, previewAge: 5000, reason: 'r' })
      return (await endOf(world, body)).count
    }

    expect(await act({ minAge: 12_000 })).toBe(0)
    expect(await act({ maxAge: 2000 })).toBe(1)
    expect(await world.store.find({ messageId: 'new' })).toMatchObject([{ state: 'ready' }])
    expect(await act({ minAge: 8000 })).toBe(1)
  })

  it('is stopped when the dashboard is closed', async () => {
    await using world = await openWorld()
    await appendParked(world.store, ...many(1200))
    const first = deferred()
    const shop = withSteps(world.store, () => first.promise)
    const other = await openWorld({ stores: { shop } })
    await other.client.post(actionsPath, { action: 'rearm', which: { filter: {} }, reason: 'r' })
    await settlePromises()
    const closing = other.dashboard.close()
    first.resolve()
    await closing

    expect(other.actions).toMatchObject([{ result: 'stopped', count: 500 }])
    expect(codeOf(await other.client.get('session'))).toBe('503 closed')
    expect(other.runtime.timers).toBe(0)
  })
})

it('an action in a store that has no audit changes its records', async () => {
  await using world = await openWorld()
  await appendParked(world.store, ...many(600))
  await using other = await openWorld({ stores: { shop: withFunctions(world.store, { audited: undefined }) } })
  const { body } = await other.client.post(actionsPath, { action: 'discard', which: { filter: {} }, reason: 'r' })

  expect(await endOf(other, body)).toMatchObject({ state: 'done', count: 600 })
})

it('an action finds its records behind pages without any', async () => {
  await using world = await openWorld()
  await appendParked(world.store, ...many(20), { id: 'wanted', type: 'rare' })
  await using other = await openWorld({ stores: { shop: withFunctions(world.store, { list: shortPages(world.store, 4) }) } })
  const { body } = await other.client.post(actionsPath, { action: 'discard', which: { filter: { type: 'rare' } }, reason: 'r' })

  expect((await endOf(other, body)).count).toBe(1)
  expect(await world.store.find({ messageId: 'wanted' })).toEqual([])
})

describe('a preview', () => {
  it.each<[string, object, Preview]>([
    ['ids', { action: 'rearm', which: { ids: ['1', '2', '4', '99'] } }, { count: 2, capped: false }],
    ['ids to publish again', { action: 'rearm', which: { ids: ['1', '4'] }, state: 'published' }, { count: 1, capped: false }],
    ['ids to park', { action: 'park', which: { ids: ['1', '5'] } }, { count: 1, capped: false }],
    ['a destination', { action: 'discard', which: { filter: { destination: 'orders' } } }, { count: 2, capped: false }],
    ['all', { action: 'rearm', which: { filter: {} } }, { count: 3, capped: false }],
    ['another criterion', { action: 'rearm', which: { filter: { messageId: 'm1' } } }, { count: 1, capped: false }],
    [
      'published records by type',
      { action: 'rearm', which: { filter: { type: 'order.placed' } }, state: 'published' },
      { count: 1, capped: false },
    ],
    ['a pause', { action: 'pause', destination: 'orders' }, { count: 1, capped: false }],
  ])('counts %s', async (_, action, expected) => {
    await using world = await openWorld()
    await appendParked(world.store, ...many(2), { id: 'other', destination: 'mail' })
    await append(world.store, { id: 'published' })
    await settle(world.store, { result: 'published' })
    await append(world.store, { id: 'ready' })
    // The ids: 1 and 2 parked for orders, 3 for mail, 4 published, 5 ready.

    expect((await world.client.post('stores/shop/preview', { ...action, reason: 'r' })).body).toEqual(expected)
    expect(world.actions).toEqual([])
  })

  it('counts on short pages, and stops after a second', async () => {
    await using world = await openWorld()
    await appendParked(world.store, ...many(20))
    let pages = 0
    const counted = async (pageTime: number) => {
      const list = shortPages(world.store, 4, async () => {
        pages += 1
        await other.runtime.advance(pageTime)
      })
      const other: World = await openWorld({ stores: { shop: withFunctions(world.store, { list, groups: undefined }) } })
      await using _other = other
      const action = { action: 'discard', which: { filter: { type: 'order.placed' } }, reason: 'r' }
      return (await other.client.post('stores/shop/preview', action)).body
    }

    expect([await counted(100), pages]).toEqual([{ count: 20, capped: false }, 5])
    expect([await counted(400), pages]).toEqual([{ count: 12, capped: true }, 8])
  })

  it.each([
    ['filter', { destination: 'orders' }],
    ['criterion', { type: 'order.placed' }],
  ])('stops counting at 10,000, by %s', async (_, filter) => {
    await using world = await openWorld()
    await appendParked(world.store, ...many(10_600))
    const action = { action: 'discard', which: { filter }, reason: 'r' }

    expect((await world.client.post('stores/shop/preview', action)).body).toEqual({ count: 10_000, capped: true })
    const { body } = await world.client.post(actionsPath, action)
    // The total is unknown.
    expect(await endOf(world, body)).toEqual({ ...body, state: 'done', count: 10_600 })
  })
})

describe('the rights', () => {
  const whole = { ids: ['1'] }
  const needs: readonly [name: string, action: object, rights: readonly Right[]][] = [
    ['rearm', { action: 'rearm', which: whole }, ['rearm']],
    ['publish again', { action: 'rearm', which: whole, state: 'published' }, ['rearm']],
    ['edit the destination', { action: 'rearm', which: whole, edit: { destination: 'mail' } }, ['rearm', 'edit']],
    ['edit attributes', { action: 'rearm', which: whole, edit: { attributes: { subject: 's' } } }, ['rearm', 'edit']],
    [
      'edit the payload',
      { action: 'rearm', which: whole, edit: { payload: { kind: 'text', content: 'x' } } },
      ['rearm', 'edit', 'payload'],
    ],
    ['discard', { action: 'discard', which: whole }, ['discard']],
    ['cancel', { action: 'cancel', which: whole }, ['discard']],
    ['park', { action: 'park', which: whole }, ['pause']],
    ['pause', { action: 'pause', destination: 'orders' }, ['pause']],
    ['resume', { action: 'resume', destination: 'orders' }, ['pause']],
  ]

  it.each(needs.flatMap(([name, action, rights]) => everyRight.map((right) => ({ name, action, rights, right }))))(
    'to $name, without $right',
    async ({ action, rights, right }) => {
      await using world = await openWorld()
      await appendParked(world.store, { id: 'a' })
      const user = world.as(
        'bob',
        everyRight.filter((each) => each !== right),
      )
      const answer = await user.post(actionsPath, { ...action, reason: 'r' })

      if (rights.includes(right)) {
        expect(codeOf(answer)).toBe('403 forbidden')
        expect([await statesOf(world), world.actions, await world.store.pauses()]).toEqual([{ parked: 1 }, [], []])
        expect(world.logger.at('warn')).toMatchObject([{ fields: { by: 'bob', code: 'forbidden' } }])
      } else expect(answer.body).toMatchObject({ state: 'done' })
    },
  )

  it.each(needs)('to %s are refused by a read-only dashboard', async (_, action) => {
    await using world = await openWorld({ readOnly: true })
    await appendParked(world.store, { id: 'a' })

    expect(codeOf(await world.client.post(actionsPath, { ...action, reason: 'r' }))).toBe('403 read_only')
    expect([await statesOf(world), world.actions, await world.store.pauses()]).toEqual([{ parked: 1 }, [], []])
    expect((await world.client.post('stores/shop/preview', { ...action, reason: 'r' })).status).toBe(200)
    expect(await world.client.session()).toMatchObject({ readOnly: true })
  })

  it.each([
    'overview',
    'events',
    'stores/shop/records',
    'stores/shop/records/1',
    'stores/shop/records/1/payload',
    'stores/shop/groups?by=type',
    'stores/shop/audit',
    'jobs/1',
    'inboxes/shop?id=1',
    'dead-letters/shop',
  ])('to see %s need view', async (path) => {
    await using world = await openWorld()
    expect(codeOf(await world.as('bob', ['payload', 'rearm', 'edit', 'discard', 'pause']).get(path))).toBe('403 forbidden')
  })

  it('to stop a job are those of its action', async () => {
    await using world = await openWorld()
    await appendParked(world.store, { id: 'a' })
    const { body } = await world.client.post(actionsPath, { action: 'discard', which: { filter: {} }, reason: 'r' })

    expect(codeOf(await world.as('bob', ['view', 'rearm', 'pause']).post(`jobs/${body.id}/stop`, {}))).toBe('403 forbidden')
    expect((await world.as('bob', ['discard']).post(`jobs/${body.id}/stop`, {})).status).toBe(200)
    expect(codeOf(await world.client.post('jobs/none/stop', {}))).toBe('404 not_found')
    expect(codeOf(await world.client.get('jobs/none'))).toBe('404 not_found')
  })
})

describe('the bounds', () => {
  const ids = (count: number) => Array.from({ length: count }, (_, index) => String(index + 1))

  it('allow 1,000 ids', async () => {
    await using world = await openWorld()
    await appendParked(world.store, ...many(1000))
    expect((await world.client.post(actionsPath, { action: 'rearm', which: { ids: ids(1000) }, reason: 'r' })).body).toMatchObject({
      count: 1000,
    })
  })

  it.each<[string, unknown]>([
    ['no JSON', '{'],
    ['JSON that is not UTF-8', new Uint8Array([0x22, 0xff, 0x22])],
    ['null', null],
    ['an array', []],
    ['no action', {}],
    ['an unknown action', { action: 'destroy', which: { ids: ['1'] }, reason: 'r' }],
    ['an action with the name of a member of objects', { action: 'constructor', reason: 'r' }],
    ['no reason', { action: 'rearm', which: { ids: ['1'] } }],
    ['an empty reason', { action: 'rearm', which: { ids: ['1'] }, reason: ' ' }],
    ['a reason of 501 characters', { action: 'rearm', which: { ids: ['1'] }, reason: 'x'.repeat(501) }],
    ['a reason that is a number', { action: 'rearm', which: { ids: ['1'] }, reason: 1 }],
    ['an unknown field', { action: 'rearm', which: { ids: ['1'] }, reason: 'r', delay: 1 }],
    ['no records', { action: 'rearm', reason: 'r' }],
    ['ids and a filter', { action: 'rearm', which: { ids: ['1'], filter: {} }, reason: 'r' }],
    ['neither ids nor a filter', { action: 'rearm', which: {}, reason: 'r' }],
    ['no ids', { action: 'rearm', which: { ids: [] }, reason: 'r' }],
    ['1,001 ids', { action: 'rearm', which: { ids: ids(1001) }, reason: 'r' }],
    ['an id that is a number', { action: 'rearm', which: { ids: [1] }, reason: 'r' }],
    ['an id that is too long', { action: 'rearm', which: { ids: ['1'.repeat(1001)] }, reason: 'r' }],
    ['a misspelt filter', { action: 'discard', which: { filter: { destnation: 'x' } }, reason: 'r' }],
    ['the cursor of a page as a filter', { action: 'discard', which: { filter: { after: '1' } }, reason: 'r' }],
    ['a filter of a cancel for another state', { action: 'cancel', which: { filter: { state: 'parked' } }, reason: 'r' }],
    ['a filter for another state', { action: 'discard', which: { filter: { state: 'ready' } }, reason: 'r' }],
    ['a filter with a wrong age', { action: 'discard', which: { filter: { minAge: '5' } }, reason: 'r' }],
    ['a preview in the future', { action: 'discard', which: { filter: {} }, previewAge: -1, reason: 'r' }],
    ['a preview of an action that needs none', { action: 'park', which: { ids: ['1'] }, previewAge: 1, reason: 'r' }],
    ['a state that cannot be re-armed', { action: 'rearm', which: { ids: ['1'] }, state: 'leased', reason: 'r' }],
    ['a filter to park', { action: 'park', which: { filter: {} }, reason: 'r' }],
    ['an empty destination', { action: 'pause', destination: '', reason: 'r' }],
    ['a pause of no time', { action: 'pause', destination: 'orders', duration: 0, reason: 'r' }],
    ['a pause for ever', { action: 'pause', destination: 'orders', duration: 1e300, reason: 'r' }],
    ['an edit that is a text', { action: 'rearm', which: { ids: ['1'] }, edit: 'x', reason: 'r' }],
    ['an edit of something else', { action: 'rearm', which: { ids: ['1'] }, edit: { attempts: 1 }, reason: 'r' }],
    ['an edit of attributes that are a list', { action: 'rearm', which: { ids: ['1'] }, edit: { attributes: [] }, reason: 'r' }],
    ['an edit of an attribute to an object', { action: 'rearm', which: { ids: ['1'] }, edit: { attributes: { a: {} } }, reason: 'r' }],
    ['an edit of an id to a number', { action: 'rearm', which: { ids: ['1'] }, edit: { attributes: { id: 1 } }, reason: 'r' }],
    ['an edit to wrong JSON', { action: 'rearm', which: { ids: ['1'] }, edit: { payload: { kind: 'json', content: '{' } }, reason: 'r' }],
    [
      'an edit to wrong base64',
      { action: 'rearm', which: { ids: ['1'] }, edit: { payload: { kind: 'binary', content: '?' } }, reason: 'r' },
    ],
    [
      'an edit to half a character',
      { action: 'rearm', which: { ids: ['1'] }, edit: { payload: { kind: 'text', content: '\ud800' } }, reason: 'r' },
    ],
    ['an edit without content', { action: 'rearm', which: { ids: ['1'] }, edit: { payload: { kind: 'text' } }, reason: 'r' }],
    [
      'an edit of an unknown kind',
      { action: 'rearm', which: { ids: ['1'] }, edit: { payload: { kind: 'xml', content: '' } }, reason: 'r' },
    ],
    [
      'one payload for several records',
      { action: 'rearm', which: { ids: ['1', '2'] }, edit: { payload: { kind: 'text', content: '' } }, reason: 'r' },
    ],
    ['one message id for several records', { action: 'rearm', which: { ids: ['1', '2'] }, edit: { attributes: { id: 'm' } }, reason: 'r' }],
    ['no message id for a filter', { action: 'rearm', which: { filter: {} }, edit: { attributes: { id: null } }, reason: 'r' }],
    ['one payload for a filter', { action: 'rearm', which: { filter: {} }, edit: { payload: { kind: 'text', content: '' } }, reason: 'r' }],
  ])('refuse %s', async (_, body) => {
    await using world = await openWorld()
    await appendParked(world.store, ...many(2))

    expect(codeOf(await world.client.post(actionsPath, body))).toBe('400 invalid')
    expect([await statesOf(world), world.actions]).toEqual([{ parked: 2 }, []])
  })

  it('refuse a body of more than 6 MB, declared or not', async () => {
    await using world = await openWorld()
    const large = JSON.stringify({ action: 'rearm', which: { ids: ['1'] }, reason: 'x'.repeat(6 * 1024 * 1024) })
    expect(codeOf(await world.client.post(actionsPath, large))).toBe('413 too_large')
    expect(codeOf(await world.client.post(actionsPath, '{}', { 'content-length': '7000000' }))).toBe('413 too_large')
  })

  it('refuse a body that does not arrive within 30 seconds', async () => {
    await using world = await openWorld()
    const { csrf } = await world.client.session()
    const headers = { 'x-user': 'ann', 'x-rights': everyRight.join(' '), 'content-type': 'application/json', 'x-ackord-csrf': csrf }
    const body = new ReadableStream<Uint8Array>({ start: (controller) => controller.enqueue(new Uint8Array([0x7b])) })
    const answering = world.dashboard.fetch(new Request(`http://x/api/${actionsPath}`, { method: 'POST', headers, body, duplex: 'half' }))
    await settlePromises()
    await world.runtime.advance(30_000)

    expect((await answering).status).toBe(400)
    expect(world.runtime.timers).toBe(0)
  })

  it('allow each user 20 actions and 60 previews a minute', async () => {
    await using world = await openWorld()
    const resume = { action: 'resume', destination: 'orders', reason: 'r' }
    for (let count = 0; count < 20; count += 1) expect((await world.client.post(actionsPath, resume)).status).toBe(200)
    expect(codeOf(await world.client.post(actionsPath, resume))).toBe('429 too_many')
    expect((await world.as('bob', ['pause']).post(actionsPath, resume)).status).toBe(200)
    for (let count = 0; count < 60; count += 1) expect((await world.client.post('stores/shop/preview', resume)).status).toBe(200)
    expect(codeOf(await world.client.post('stores/shop/preview', resume))).toBe('429 too_many')
    await world.runtime.advance(60_000)

    expect((await world.client.post(actionsPath, resume)).status).toBe(200)
    expect((await world.client.post('stores/shop/preview', resume)).status).toBe(200)
  })

  it('keep 1,000 jobs', async () => {
    await using world = await openWorld()
    const resume = { action: 'resume', destination: 'orders', reason: 'r' }
    const jobs: Job[] = []
    for (let user = 0; jobs.length < 1001; user += 1) {
      const client = world.as(`user ${user}`, everyRight)
      for (let count = 0; count < 20; count += 1) jobs.push((await client.post(actionsPath, resume)).body)
    }
    const kept = await Promise.all(jobs.map(async ({ id }) => (await world.client.get(`jobs/${id}`)).status === 200))

    expect(kept.filter(Boolean)).toHaveLength(1000)
    expect(kept.slice(-1000).every(Boolean)).toBe(true)
  })
})

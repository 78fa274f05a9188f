import assert from 'node:assert/strict'
import type { OutboxAdmin, OutboxStore, Outcome } from '@ackord/outbox'
import { claim, claimOne, commit, commitParked, hour, idsOf, type OutboxScenario, record, records } from './outbox-world.ts'

const minute = 60_000

/** Failures, relays and the audit, as operators see them, and pauses of destinations. */
export const insightScenarios: readonly OutboxScenario[] = [
  {
    name: 'the cause of the last failure is kept, and selects records',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const store = complete(world.store)
      await commit(world, record('a'), record('b'), record('c'), record('d'))
      const [a, b, c, d] = await claim(store)
      assert.ok(a && b && c && d)
      await store.settle([
        fails(a, 'failed', 'connect ECONNREFUSED 10.0.0.1:5672', 'connect ECONNREFUSED N'),
        fails(b, 'parked', 'message 17 is too large', 'message N is too large'),
        fails(c, 'parked', 'message 18 is too large', 'message N is too large'),
        { id: d.id, token: d.token, result: 'published' },
      ])
      assert.equal((await store.get(a.id))?.cause, 'connect ECONNREFUSED N')
      const tooLarge = { cause: 'message N is too large' }
      assert.deepEqual(messageIds(await store.list(tooLarge, { limit: 10 })), ['b', 'c'])
      assert.deepEqual(messageIds(await store.list({ cause: 'message N' }, { limit: 10 })), [])
      assert.deepEqual(messageIds(await store.list({ error: 'eCONNrefused 10.0' }, { limit: 10 })), ['a'])
      assert.deepEqual(messageIds(await store.list({ error: '%' }, { limit: 10 })), [])
      assert.equal(await store.rearm({ filter: tooLarge }), 2)
      assert.equal(await store.rearm({ filter: tooLarge }), 0)
    },
  },
  {
    name: 'records are selected by their age',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, record('old'))
      await world.advance(hour)
      await commit(world, record('new'))
      assert.deepEqual(messageIds(await world.store.list({ minAge: 30 * minute }, { limit: 10 })), ['old'])
      assert.deepEqual(messageIds(await world.store.list({ maxAge: 30 * minute }, { limit: 10 })), ['new'])
      assert.deepEqual(messageIds(await world.store.list({ minAge: 2 * hour }, { limit: 10 })), [])
    },
  },
  {
    name: 'parked records are selected by the time since they were parked',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const store = complete(world.store)
      await commit(world, record('parked early'), record('parked late'), record('not parked'))
      const [early, late, pending] = await claim(store)
      assert.ok(early && late && pending)
      await store.settle([fails(early, 'parked', 'it', 'it')])
      await world.advance(minute / 2)
      await store.settle([fails(late, 'parked', 'it', 'it')])
      await store.release([pending])
      await world.advance(minute)
      const since = async (minParkedAge: number) => messageIds(await store.list({ minParkedAge }, { limit: 10 }))
      assert.deepEqual(await since(0), ['parked early', 'parked late'])
      const minParkedAge = 1.25 * minute
      assert.deepEqual(await since(minParkedAge), ['parked early'])
      assert.deepEqual(await since(2 * minute), [])
      assert.deepEqual(messageIds(await store.list({ state: 'parked', destination: 'orders', minParkedAge }, { limit: 10 })), [
        'parked early',
      ])
      const { groups } = await store.groups('failure', { minParkedAge })
      assert.deepEqual(
        groups.map(({ name, count }) => `${count} ${name}`),
        ['1 it'],
      )
      assert.equal(await store.rearm({ filter: { minParkedAge } }), 1)
      assert.equal((await store.get(late.id))?.state, 'parked')
    },
  },
  {
    name: 'the history of a record has its last ten errors with their times, the latest first',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const store = complete(world.store)
      await commit(world, record('a'), record('b'))
      await store.settle((await claim(store)).map((one) => fails(one, 'failed', `error 1 of ${one.message.id}\nin two lines`, 'error')))
      const [a] = (await store.list({ messageId: 'a' }, { limit: 1 })).records
      assert.ok(a)
      assert.deepEqual(
        (await store.history(a.id)).map(({ error }) => error),
        ['error 1 of a in two lines'],
      )
      for (let attempt = 2; attempt <= 12; attempt += 1) {
        await world.advance(minute)
        const claimed = (await claim(store)).filter(({ message }) => message.id === 'a')
        await store.settle(claimed.map((one) => fails(one, attempt === 12 ? 'parked' : 'failed', `error ${attempt} of a`, 'error')))
      }
      const history = await store.history(a.id)
      assert.deepEqual(
        history.map(({ error }) => error),
        Array.from({ length: 10 }, (_, index) => `error ${12 - index} of a`),
      )
      for (const [index, { at }] of history.entries()) {
        const before = history[index + 1]?.at
        if (before !== undefined) assert.ok(at >= before, `${at} is before ${before}`)
      }
      await store.rearm({ ids: [a.id] })
      assert.equal((await store.history(a.id)).length, 10)
      assert.deepEqual(await store.history('no such record'), [])
    },
  },
  {
    name: 'find returns the records of a message id in every state',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const store = complete(world.store)
      await commitParked(world, record('a', { destination: 'one' }))
      await commit(world, record('a', { destination: 'two' }), record('b'))
      const found = await store.find({ messageId: 'a' })
      assert.deepEqual(found.map(({ destination, state }) => `${destination} ${state}`).sort(), ['one parked', 'two ready'])
      assert.deepEqual(await store.find({ messageId: 'c' }), [])
    },
  },
  {
    name: 'find returns an edited record by its new message id, and no longer by the old one',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const store = complete(world.store)
      const [moved, renamed] = await commitParked(world, record('moved'), record('renamed'))
      assert.ok(moved !== undefined && renamed !== undefined)
      await store.rearm({ ids: [moved] }, { destination: 'elsewhere', attributes: { source: '/another' } })
      await store.rearm({ ids: [renamed] }, { attributes: { id: 'new name' } })
      await commit(world, record('other'))
      const found = async (messageId: string) => (await store.find({ messageId })).map(({ destination }) => destination)
      assert.deepEqual(await found('moved'), ['elsewhere'])
      assert.deepEqual(await found('new name'), ['orders'])
      assert.deepEqual(await found('renamed'), [])
      const claimed = await claim(store)
      await store.settle(claimed.map(({ id, token }) => ({ id, token, result: 'published' })))
      for (const messageId of ['moved', 'new name', 'other']) assert.deepEqual(await found(messageId), [])
    },
  },
  {
    name: 'groups count parked and waiting records by cause, type and destination',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const store = complete(world.store)
      await commit(world, ...records(3, 'a', { destination: 'one' }), ...records(2, 'b', { destination: 'two', type: 'order.paid' }))
      const claimed = await claim(store)
      await store.settle(
        claimed.map((one, index) =>
          fails(one, index % 2 === 0 ? 'parked' : 'failed', 'it', one.destination === 'one' ? 'refused' : 'late'),
        ),
      )
      await commit(world, record('ready', { destination: 'one' }))
      const names = async (by: 'failure' | 'type' | 'destination') => {
        const { groups, complete } = await store.groups(by, { state: undefined })
        assert.equal(complete, true)
        for (const { first, last } of groups) assert.ok(first <= last)
        return groups.map(({ name, count }) => `${count} ${name}`)
      }
      assert.deepEqual(await names('failure'), ['3 refused', '2 late'])
      assert.deepEqual(await names('type'), ['3 order.placed', '2 order.paid'])
      assert.deepEqual(await names('destination'), ['3 one', '2 two'])
      const parked = await store.groups('failure', { state: 'parked', destination: 'one' })
      assert.deepEqual(
        parked.groups.map(({ name, count }) => `${count} ${name}`),
        ['2 refused'],
      )
    },
  },
  {
    name: 'stats with a limit count no further, and say so',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, ...records(8, 'a', { destination: 'many' }), ...records(2, 'b', { destination: 'few' }))
      const { destinations, oldestAge } = await world.store.stats({ limit: 5 })
      const counts = new Map(destinations.map(({ destination, ready, capped = false }) => [destination, { ready, capped }]))
      assert.deepEqual(counts.get('few'), { ready: 2, capped: false })
      const many = counts.get('many')
      // A store that keeps its counts need not stop.
      assert.ok(many !== undefined && ((many.ready === 5 && many.capped) || (many.ready === 8 && !many.capped)), JSON.stringify(many))
      assert.ok(oldestAge !== undefined && oldestAge >= 0)
      await assert.rejects(world.store.stats({ limit: 0 }), /limit/)
    },
  },
  {
    name: 'a pause is seen by all store objects, ends by itself or by resume, and changes no record',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const store = complete(world.store)
      const other = complete(await world.another())
      await commit(world, record('a', { destination: 'one' }))
      await store.pause('one', { reason: 'maintenance', by: 'ann' })
      await store.pause('two', { duration: minute })
      const [one, two] = (await other.pauses()).toSorted((x, y) => (x.destination < y.destination ? -1 : 1))
      assert.deepEqual(
        { ...one, since: undefined },
        { destination: 'one', reason: 'maintenance', by: 'ann', since: undefined, until: undefined },
      )
      assert.equal(two?.until, (two?.since ?? 0) + minute)
      assert.equal((await claimOne(store)).message.id, 'a')
      await world.advance(2 * minute)
      assert.deepEqual(
        (await other.pauses()).map(({ destination }) => destination),
        ['one'],
      )
      assert.equal(await other.resume('one', { by: 'bob' }), true)
      assert.equal(await store.resume('one'), false)
      assert.deepEqual(await store.pauses(), [])
      await assert.rejects(store.pause('', {}), /destination/)
      await assert.rejects(store.pause('one', { duration: 0 }), /duration/)
    },
  },
  {
    name: 'notes are replaced by name, read by age, and deleted when they are old',
    async run(open) {
      await using world = await open({ retain: false })
      const notes = world.store.notes
      assert.ok(notes, 'the store has no notes')
      const read = async (maxAge?: number) => (await notes.read('rate', { limit: 10, maxAge })).map(({ name, value }) => `${name}=${value}`)
      await notes.put('rate', [{ name: 'a', value: '1' }], hour)
      await notes.put('relay', [{ name: 'a', value: 'another kind' }], hour)
      await world.advance(10 * minute)
      await notes.put(
        'rate',
        [
          { name: 'b', value: 'ünïcode ☃ \' " \\ %' },
          { name: 'c', value: 'x'.repeat(10_000) },
        ],
        hour,
      )
      assert.deepEqual((await read()).toSorted(), ['a=1', 'b=ünïcode ☃ \' " \\ %', `c=${'x'.repeat(10_000)}`])
      assert.deepEqual((await read()).at(-1), 'a=1')
      assert.equal((await read(5 * minute)).length, 2)
      assert.equal((await notes.read('rate', { limit: 1 })).length, 1)
      await notes.put('rate', [{ name: 'a', value: '2' }], hour)
      assert.deepEqual((await read())[0], 'a=2')
      const [latest] = await notes.read('rate', { limit: 1 })
      assert.ok(latest !== undefined && latest.age >= 0 && latest.age < minute && latest.at > 0)
      await world.advance(30 * minute)
      await notes.put('rate', [{ name: 'd', value: '4' }], 20 * minute)
      assert.deepEqual(await read(), ['d=4'])
      assert.equal(await notes.delete('rate', 'd'), true)
      assert.equal(await notes.delete('rate', 'd'), false)
      assert.equal((await notes.read('relay', { limit: 10 })).length, 1)
      await notes.put('rate', [], hour)
    },
  },
  {
    name: 'activity has what pauses, relays and rates return',
    async run(open) {
      await using world = await open({ retain: false })
      const store = complete(world.store)
      const notes = world.store.notes
      assert.ok(notes, 'the store has no notes')
      const counts = { published: 3, failed: 2, parked: 1 }
      const rate = { duration: minute, destination: 'one', ...counts }
      const report = { host: 'h', pid: 7, uptime: minute, inFlight: 0, down: [], ...counts }
      await notes.put('rate', [{ name: 'old', value: JSON.stringify(rate) }], hour)
      await world.advance(10 * minute)
      await notes.put('rate', [{ name: 'new', value: JSON.stringify({ ...rate, destination: 'two' }) }], hour)
      await notes.put('relay', [{ name: 'r1', value: JSON.stringify(report) }], hour)
      await store.pause('one', { by: 'ann' })
      const maxAge = 5 * minute
      const { pauses, relays, rates } = await store.activity({ maxAge })
      assert.deepEqual(pauses, await store.pauses())
      assert.deepEqual(rates, await store.rates({ maxAge }))
      assert.deepEqual(
        relays.map((relay) => ({ ...relay, age: 0 })),
        (await store.relays()).map((relay) => ({ ...relay, age: 0 })),
      )
      assert.deepEqual([pauses.length, relays.length, rates.length], [1, 1, 1])
      assert.deepEqual(
        (await store.activity({ maxAge: hour })).rates.map(({ destination }) => destination),
        ['two', 'one'],
      )
      await assert.rejects(store.activity({ maxAge: 0 }), /maxAge/)
    },
  },
  {
    name: 'the audit has who did what, to how many records, and why',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const store = complete(world.store)
      const ids = await commitParked(world, ...records(4))
      await commit(world, record('ready'))
      await store.rearm({ ids: ids.slice(0, 1) }, {}, { by: 'ann', reason: 'the broker is back' })
      await world.advance(minute)
      await store.discard(ids.slice(1, 2), 'obsolete', { by: 'bob' })
      await world.advance(minute)
      assert.equal(await store.discard({ filter: { type: 'order.placed' } }, 'all obsolete'), 2)
      await world.advance(minute)
      await store.pause('orders', { by: 'ann', reason: 'maintenance' })
      await world.advance(minute)
      const elsewhere = { action: 'replay', what: 'dead letters', by: 'bob', reason: 'fixed' } as const
      assert.equal(await store.audited(elsewhere, async () => 7), 7)
      await world.advance(minute)
      const inSteps = async (first: string) => {
        const entry = { action: 'rearm', what: 'in steps', by: 'ann', reason: first } as const
        return await store.audited(entry, async (steps) => {
          const parked = await steps.park(ids.slice(0, 1), 'once more')
          const rearmed = await steps.rearm({ ids: ids.slice(0, 1) })
          if (first === 'lost') throw new Error('The connection was lost.')
          return parked + rearmed
        })
      }
      assert.equal(await inSteps('kept'), 2)
      await world.advance(minute)
      await assert.rejects(inSteps('lost'), /connection was lost/)
      const audit = await store.audit({ limit: 10 })
      const shown = audit.map(({ action, by, reason, count }) => [action, by, reason, count])
      assert.deepEqual(shown, [
        ['rearm', 'ann', 'lost', 2],
        ['rearm', 'ann', 'kept', 2],
        ['replay', 'bob', 'fixed', 7],
        ['pause', 'ann', 'maintenance', 1],
        ['discard', undefined, 'all obsolete', 2],
        ['discard', 'bob', 'obsolete', 1],
        ['rearm', 'ann', 'the broker is back', 1],
      ])
      assert.deepEqual([audit[0]?.error, audit[1]?.error], ['The connection was lost.', undefined])
      assert.equal(audit[2]?.what, 'dead letters')
      assert.equal(audit[3]?.what, 'orders')
      assert.equal(audit[6]?.what, ids[0])
      assert.equal((await store.audit({ limit: 1 })).length, 1)
      assert.equal(
        (await store.stats()).destinations.reduce((sum, { ready, parked }) => sum + ready + parked, 0),
        2,
      )
    },
  },
]

function complete(store: OutboxStore & OutboxAdmin): OutboxStore & Required<OutboxAdmin> {
  for (const name of [
    'find',
    'groups',
    'history',
    'pause',
    'resume',
    'pauses',
    'relays',
    'rates',
    'activity',
    'audited',
    'audit',
  ] as const) {
    assert.equal(typeof store[name], 'function', `the store has no ${name}()`)
  }
  return store as OutboxStore & Required<OutboxAdmin>
}

function fails(
  claimed: { readonly id: string; readonly token: string },
  result: 'failed' | 'parked',
  error: string,
  cause: string,
): Outcome {
  const { id, token } = claimed
  return result === 'failed' ? { id, token, result, error, cause, retryAfter: 30_000 } : { id, token, result, error, cause }
}

function messageIds({ records: found }: { readonly records: Parameters<typeof idsOf>[0] }): (string | undefined)[] {
  return idsOf(found)
}

import { jsonMarshaler, marshal, silentLogger } from '@ackord/core'
import type { ClaimedRecord } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { type SqlOutbox, sqlOutbox } from '../../src/index.ts'
import { type ClientWorld, onEachClient } from '../support/client-worlds.ts'
import { event, failureOf } from '../support/world.ts'

const lease = 60_000
const hour = 3_600_000

function testFailures<Handle>(name: string, open: () => Promise<ClientWorld<Handle>>): void {
  describe.each(['none', 'perKey'] as const)(`failures with order %s on ${name}`, (order) => {
    async function openWith(...ids: string[]) {
      const world = await open()
      const outbox = sqlOutbox(world.database, { order, logger: silentLogger })
      const records = ids.map((id) => ({ destination: 'events', message: marshal(event(id), jsonMarshaler) }))
      await world.database.write((transaction) => outbox.append(transaction, records))
      return { world, outbox }
    }

    async function claimOne(outbox: SqlOutbox<Handle>): Promise<ClaimedRecord> {
      const [claimed] = await outbox.claim({ limit: 1, lease })
      if (claimed === undefined) throw new Error('There is no record to claim.')
      return claimed
    }

    it.each([
      ['a NUL character', 'no\0t found'],
      ['half of a surrogate pair', 'smile \ud83d, and \ude00'],
      ['a pair that is cut', `${'x'.repeat(379)}😀😀`],
      ['quotes and backslashes', `it's "here" \\n \\' %s ? $1 {a,b}`],
      ['no characters', ''],
      ['4 KB', 'é'.repeat(4096)],
    ])('are settled with an error and a cause that contain %s', async (_, text) => {
      const { world, outbox } = await openWith('e1', 'e2')
      await using _world = world
      const [first, second] = await outbox.claim({ limit: 2, lease })
      if (first === undefined || second === undefined) throw new Error('Two records were expected.')
      const failure = { error: text, cause: text }
      const outcomes = [
        { id: first.id, token: first.token, result: 'failed', retryAfter: hour, ...failure },
        { id: second.id, token: second.token, result: 'parked', ...failure },
      ] as const
      expect(await outbox.settle(outcomes)).toEqual(['applied', 'applied'])
      const stored = text.replaceAll('\0', '\uFFFD').toWellFormed()
      for (const id of [first.id, second.id]) {
        const cause = stored.slice(0, 200).toWellFormed()
        expect(await outbox.get(id)).toMatchObject({ lastError: stored, cause })
        expect(await outbox.history(id)).toEqual([{ at: expect.any(Number), error: stored.slice(0, 380).toWellFormed() }])
      }
      expect((await outbox.list(failure, { limit: 10 })).records).toHaveLength(2)
      expect((await outbox.groups('failure', failure)).groups).toMatchObject([{ count: 2 }])
    })

    it('keep the last ten errors, however long they are, and the cause of the last one only', async () => {
      const { world, outbox } = await openWith('e1')
      await using _world = world
      const texts = Array.from({ length: 13 }, (_, index) => `${index} ${'😀é'.repeat(200)}`)
      for (const [index, error] of texts.entries()) {
        const { id, token } = await claimOne(outbox)
        await outbox.settle([{ id, token, result: 'failed', retryAfter: 0, error, cause: index === 12 ? undefined : 'too long' }])
      }
      const [record] = (await outbox.list({}, { limit: 1 })).records
      expect(record).toMatchObject({ cause: undefined, lastError: texts.at(-1) })
      const history = await outbox.history(record?.id ?? '')
      expect(history.map(({ error }) => error.split(' ')[0])).toEqual(['12', '11', '10', '9', '8', '7', '6', '5', '4', '3'])
      for (const { error } of history) expect(error.length).toBeGreaterThan(370)
    })

    it('are counted in a batch of hundreds, beside published records', async () => {
      const ids = Array.from({ length: 250 }, (_, index) => `e${index}`)
      const { world, outbox } = await openWith(...ids)
      await using _world = world
      const claimed = await outbox.claim({ limit: 250, lease })
      expect(claimed).toHaveLength(250)
      const results = ['published', 'failed', 'parked'] as const
      const outcomes = claimed.map(({ id, token }, index) => {
        const result = results[index % 3] ?? 'published'
        const failure = { error: `error of ${id}`, cause: `cause ${index % 5}` }
        return result === 'published' ? { id, token, result } : { id, token, result, retryAfter: hour, ...failure }
      })
      expect(new Set(await outbox.settle(outcomes))).toEqual(new Set(['applied']))
      const { groups, complete } = await outbox.groups('failure')
      expect([groups.reduce((sum, { count }) => sum + count, 0), groups.length, complete]).toEqual([166, 5, true])
      for (const { id, lastError, cause } of (await outbox.list({}, { limit: 250 })).records) {
        expect([lastError, cause]).toEqual([`error of ${id}`, expect.stringMatching(/^cause \d$/)])
        expect(await outbox.history(id)).toEqual([{ at: expect.any(Number), error: `error of ${id}` }])
      }
    })

    it('include the reason of an operator, which re-arming keeps in the history', async () => {
      const { world, outbox } = await openWith('e1')
      await using _world = world
      const [record] = (await outbox.list({}, { limit: 1 })).records
      const id = record?.id ?? ''
      const reason = `wrong\0 ${'x'.repeat(1000)}`
      expect(await outbox.park([id], reason)).toBe(1)
      const stored = reason.replace('\0', '\uFFFD')
      expect(await outbox.get(id)).toMatchObject({ state: 'parked', lastError: stored, cause: stored.slice(0, 200) })
      expect(await outbox.rearm({ filter: { cause: reason.slice(0, 200) } })).toBe(1)
      expect(await outbox.history(id)).toEqual([{ at: expect.any(Number), error: stored.slice(0, 380) }])
      const { createdAt } = (await outbox.get(id)) ?? {}
      const [failure] = await outbox.history(id)
      expect(Math.abs((failure?.at ?? 0) - (createdAt ?? 0))).toBeLessThan(hour)
    })

    it('are not counted by stats() beyond a limit that leased and ready records reach together', async () => {
      const { world, outbox } = await openWith('e1', 'e2', 'e3', 'e4')
      await using _world = world
      const { id, token } = await claimOne(outbox)
      const { destinations } = await outbox.stats({ limit: 3 })
      expect(destinations).toMatchObject([{ destination: 'events', capped: true }])
      await outbox.release([{ id, token }])
      expect((await outbox.stats({ limit: 5 })).destinations).toEqual([expect.not.objectContaining({ capped: true })])
      if (order === 'perKey') expect(outbox.ownedPartitions?.()).toHaveLength(256)
    })

    it('are selected by an age that no database can represent', async () => {
      const { world, outbox } = await openWith('e1')
      await using _world = world
      expect((await outbox.list({ maxAge: Number.MAX_VALUE }, { limit: 1 })).records).toHaveLength(1)
      expect((await outbox.list({ minAge: Number.MAX_VALUE }, { limit: 1 })).records).toEqual([])
      for (const minAge of [Number.NaN, -1, '0; SELECT 1' as never]) {
        expect(await failureOf(outbox.list({ minAge }, { limit: 1 }))).toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
      }
    })
  })

  describe(`notes on ${name}`, () => {
    it('have any value, and a name that a destination may have', async () => {
      await using world = await open()
      const { notes } = sqlOutbox(world.database, { logger: silentLogger })
      const longest = 'é'.repeat(200)
      const values = { a: 'a\0b \ud83d', [longest]: '\'"\\ {} 😀', ['x'.repeat(1024)]: '' }
      await notes.put(
        'audit',
        Object.entries(values).map(([entry, value]) => ({ name: entry, value })),
        hour,
      )
      const found = await notes.read('audit', { limit: 10 })
      expect(Object.fromEntries(found.map((note) => [note.name, note.value]))).toEqual({ ...values, a: 'a\uFFFDb \uFFFD' })
      expect(await notes.delete('audit', longest)).toBe(true)
      for (const wrong of ['a\0b', '\ud83d', 'x'.repeat(1025)]) {
        expect(await failureOf(notes.put('audit', [{ name: wrong, value: '' }], hour))).toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
      }
    })

    it('of many relays are written at the same time, while they delete old ones', async () => {
      await using world = await open()
      const { notes } = sqlOutbox(world.database, { logger: silentLogger })
      const names = Array.from({ length: 8 }, (_, index) => `relay-${index}`)
      for (let round = 0; round < 5; round += 1) {
        // Every note of the last round is old.
        await Promise.all(names.map((own) => notes.put('relay', [{ name: own, value: `${round}` }], 0)))
      }
      await Promise.all(
        names.map((own) =>
          notes.put(
            'relay',
            [...names].reverse().map((each) => ({ name: each, value: own })),
            hour,
          ),
        ),
      )
      expect(await notes.read('relay', { limit: 100 })).toHaveLength(8)
      // The last of two with the same name.
      await notes.put(
        'relay',
        [
          { name: 'twice', value: '1' },
          { name: 'twice', value: '2' },
        ],
        hour,
      )
      expect((await notes.read('relay', { limit: 1 }))[0]).toMatchObject({ name: 'twice', value: '2' })
    })
  })
}

onEachClient(testFailures)

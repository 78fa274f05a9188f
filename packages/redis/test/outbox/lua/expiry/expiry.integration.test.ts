import { Message } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { startRedis } from '../../../../../../scripts/servers/index.mjs'
import { expiryKeyNames, expiryKeyTypes } from '../../../../src/outbox/lua/expiry/due-expiry.ts'
import { type LuaExpiryOptions, luaExpiry } from '../../../../src/outbox/lua/expiry/lua-expiry.ts'
import { expiryLua } from '../../../../src/outbox/lua/expiry/scripts.ts'
import { keyCount, keyNames, keyTypes } from '../../../../src/outbox/lua/layout.ts'
import { outboxLua } from '../../../../src/outbox/lua/scripts/prelude.ts'
import { redisKinds } from '../../../support/redis-clients.ts'
import { problemsOn60, recordRedis } from '../../../support/redis-recording.ts'
import { brokenInvariants } from '../invariants.ts'
import { lease, published } from '../lua-world.ts'
import { ExpiryWorld, expired, namespace, revoked } from './expiry-world.ts'

const context = Uint8Array.of(0, 1, 255)
const clients = redisKinds.filter(({ name }) => !name.startsWith('ioredis 5'))

describe.each(clients)('expiry on $name', (kind) => {
  it('R23: stores the event of a due expiry once, with its context and the id of the expiry', async () => {
    await using world = await ExpiryWorld.open({ kind, outbox: { shards: 3 } })
    const { expiry, start } = world
    for (const subject of ['t:1', 't{2}', 't 3 ü']) expect(await expiry.recordExpiry(subject, start + 1000, context)).toBe('recorded')
    expect(await expiry.dueExpiries(10)).toEqual({ expiries: [], now: start, nextIn: 1000 })
    await world.at(1000)
    const { expiries, nextIn } = await expiry.dueExpiries(10)
    expect(nextIn).toBeUndefined()
    expect(expiries.map(({ subject }) => subject).sort()).toEqual(['t 3 ü', 't:1', 't{2}'])
    expect(expiries.every((due) => due.dueAt === start + 1000 && Buffer.from(due.context ?? []).equals(context))).toBe(true)
    for (const due of expiries) expect(await expiry.decideExpiry(due, expired)).toBe('enqueued')
    for (const due of expiries) expect(await expiry.decideExpiry(due, expired)).toBe('duplicate')
    expect((await expiry.dueExpiries(10)).expiries).toEqual([])

    const claimed = await world.world.store.claim({ limit: 10, lease })
    expect(claimed.map(({ message }) => [message.attributes.subject, message.id]).sort()).toEqual(
      expiries.map(({ subject, dueAt }) => [subject, expiry.eventId(subject, dueAt)]).sort(),
    )
    expect(claimed.every(({ message }) => Buffer.from(message.data).equals(context))).toBe(true)
    for (const shard of world.world.shards) expect(await brokenInvariants(world.world, shard)).toEqual([])
  })

  it('records an expiry in one step with the business write, in a transaction', async () => {
    await using world = await ExpiryWorld.open({ kind, keyPrefix: 'app:', outbox: { shards: 2 } })
    const { redis, store } = world.world
    const ticket = redis.key(store.tagOf('t1'), 'ticket', 't1')
    await redis.write(async (transaction) => {
      transaction.queue({ name: 'SET', args: [ticket, 'valid', 'PX', '60000'], keys: [0], kind: 'any' })
      world.expiry.recordExpiryIn(transaction, 't1', world.start + 5, context)
    })
    await world.at(5)
    expect((await world.expiry.dueExpiries(10)).expiries).toMatchObject([{ subject: 't1', dueAt: world.start + 5 }])
    expect(await world.decide('t1', 5)).toBe('enqueued')
  })
})

describe('expiry', () => {
  it('R25: the id is a UUIDv3 of namespace, subject and due time', async () => {
    await using world = await ExpiryWorld.open()
    // The values that other UUIDv3 implementations produce.
    expect(world.expiry.eventId('ticket-1', 1_780_272_000_000)).toBe('cf69b35c-52f8-3904-9997-d9812603471f')
    const dns = luaExpiry(world.world.store, '6ba7b810-9dad-11d1-80b4-00c04fd430c8')
    expect(dns.eventId('a', 1)).toBe('9271eb48-34f9-3b6e-b8d9-0cf850c74641')
    expect(dns.eventId('a', 2)).not.toBe('9271eb48-34f9-3b6e-b8d9-0cf850c74641')
  })

  it('R24: the mark of a revocation outlives due time and grace, and a late recording does not undo it', async () => {
    const grace = 10_000
    await using world = await ExpiryWorld.open({ expiry: { grace } })
    const { expiry, start } = world
    await expiry.recordExpiry('t', start + 100_000, context)
    expect(await expiry.revoke('t', revoked('t'))).toBe('revoked')
    await world.at(109_999)
    expect(await expiry.recordExpiry('t', start + 100_000, context)).toBe('revoked')
    expect(await world.decide('t', 100_000)).toBe('revoked')

    // Revoked before it was recorded: the recording determines how long the mark must be kept.
    expect(await expiry.revoke('early', revoked('early'))).toBe('revoked')
    expect(await expiry.recordExpiry('early', start + 900_000, context)).toBe('revoked')
    await world.at(900_000 + grace - 1)
    expect(await expiry.recordExpiry('early', start + 900_000, context)).toBe('revoked')
    await world.at(900_000 + grace)
    expect(await expiry.recordExpiry('early', start + 900_000, context)).toBe('recorded')
  })

  it('edge 13: a mark outlives the due time of an expiry that a transaction recorded after it', async () => {
    await using world = await ExpiryWorld.open({ expiry: { grace: 10_000 } })
    const { expiry, start } = world
    await expiry.revoke('t', revoked('t'))
    await world.world.redis.write(async (transaction) => expiry.recordExpiryIn(transaction, 't', start + 100_000, context))
    await world.at(100_000)
    expect(await world.decide('t', 100_000)).toBe('revoked')
    expect((await expiry.dueExpiries(10)).expiries).toEqual([])
    await world.relay()
    expect(world.published).toEqual(['ticket.revoked t'])
  })

  it('edge 13: the mark stays when others are removed, and after the decision', async () => {
    await using world = await ExpiryWorld.open({ expiry: { grace: 10_000 } })
    const { expiry, start } = world
    await expiry.revoke('t', revoked('t'))
    await expiry.revoke('over', revoked('over'))
    await world.world.redis.write(async (transaction) => expiry.recordExpiryIn(transaction, 't', start + 100_000, context))
    await world.at(50_000)
    await expiry.revoke('other', revoked('other'))
    expect(await world.world.command('ZSCORE', world.key('revoked'), 'over')).toBeNull()
    await world.at(100_000)
    expect(await world.decide('t', 100_000)).toBe('revoked')
    await world.at(109_999)
    expect(await expiry.recordExpiry('t', start + 100_000, context)).toBe('revoked')
    await world.at(110_000)
    expect(await expiry.recordExpiry('t', start + 100_000, context)).toBe('recorded')
  })

  it('edge 13: a late replay in a transaction does not shorten a mark', async () => {
    const grace = 10_000
    await using world = await ExpiryWorld.open({ expiry: { grace } })
    const { expiry, start } = world
    await world.at(50_000)
    await expiry.revoke('t', revoked('t'))
    await world.world.redis.write(async (transaction) => expiry.recordExpiryIn(transaction, 't', start, context))
    expect(await world.world.command('ZSCORE', world.key('revoked'), 't')).toBe(String(start + 50_000 + grace))
    expect(await world.decide('t', 0)).toBe('revoked')
    await world.relay()
    expect(world.published).toEqual(['ticket.revoked t'])
  })

  async function recordedAfterTheMark(record: (world: ExpiryWorld, dueAt: number) => Promise<unknown>): Promise<void> {
    await using world = await ExpiryWorld.open({ expiry: { grace: 10_000 } })
    await world.expiry.revoke('t', revoked('t'))
    await world.at(10_000)
    await record(world, world.start + 20_000)
    await world.at(20_000)
    expect(await world.decide('t', 20_000)).toBe('enqueued')
    await world.relay()
    expect(world.published).toEqual(['ticket.revoked t', 'ticket.expired t'])
  }

  it('edge 13: an expired mark stays expired when the subject is recorded again', async () => {
    await recordedAfterTheMark((world, dueAt) => world.expiry.recordExpiry('t', dueAt, context))
  })

  it('edge 13: an expired mark stays expired when a transaction records the subject again', async () => {
    await recordedAfterTheMark((world, dueAt) =>
      world.world.redis.write(async (transaction) => world.expiry.recordExpiryIn(transaction, 't', dueAt, context)),
    )
  })

  it.each([true, false])('R25: a late replay is a duplicate after the event was published and deleted; retained: %s', async (retain) => {
    await using world = await ExpiryWorld.open({ outbox: { retain }, expiry: { remember: 50_000 } })
    const { expiry, start } = world
    await expiry.recordExpiry('t', start, context)
    expect(await world.decide('t', 0)).toBe('enqueued')
    await world.relay()
    expect(await world.decide('t', 0)).toBe('duplicate')
    expect(await expiry.recordExpiry('t', start, context)).toBe('decided')
    await world.world.redis.write(async (transaction) => expiry.recordExpiryIn(transaction, 't', start, context))
    await world.at(49_999)
    expect(await world.decide('t', 0)).toBe('duplicate')
    expect(await expiry.revoke('t', revoked('t'))).toBe('expired')
    await world.relay()
    expect(world.published).toEqual(['ticket.expired t'])
  })

  it('R26: an expiry that is not due stays, every other decision removes it', async () => {
    await using world = await ExpiryWorld.open()
    const { expiry, start } = world
    const members = async () => [
      await world.world.command('ZCARD', world.key('due')),
      await world.world.command('HLEN', world.key('contexts')),
    ]
    await expiry.recordExpiry('t', start + 1, context)
    expect(await world.decide('t', 1)).toBe('not_due')
    expect(await world.decide('t', 0)).toBe('not_due')
    expect(await members()).toEqual([1, 1])
    await world.at(1)
    expect(await world.decide('t', 1)).toBe('enqueued')
    expect(await members()).toEqual([0, 0])
    expect(await world.decide('unknown', 0)).toBe('not_due')

    await world.world.redis.write(async (transaction) => expiry.recordExpiryIn(transaction, 't', start + 1, context))
    expect(await world.decide('t', 1)).toBe('duplicate')
    expect(await members()).toEqual([0, 0])
    await expiry.revoke('r', revoked('r'))
    await world.world.redis.write(async (transaction) => expiry.recordExpiryIn(transaction, 'r', start + 1, context))
    expect(await members()).toEqual([1, 1])
    expect(await world.decide('r', 1)).toBe('revoked')
    expect(await members()).toEqual([0, 0])
  })

  it('R27: issued again, a subject has another due time and event id, and a decision on the old one has no effect', async () => {
    await using world = await ExpiryWorld.open()
    const { expiry, start } = world
    await expiry.recordExpiry('t', start, context)
    const old = (await expiry.dueExpiries(1)).expiries
    expect(await expiry.recordExpiry('t', start + 500, context)).toBe('moved')
    expect(await world.decide('t', 0)).toBe('not_due')
    await world.at(600)
    // By now both due times have passed.
    for (const due of old) expect(await expiry.decideExpiry(due, expired)).toBe('not_due')
    expect(await world.decide('t', 500)).toBe('enqueued')
    expect(await expiry.recordExpiry('t', start + 600, context)).toBe('recorded')
    expect(await world.decide('t', 600)).toBe('enqueued')
    const claimed = await world.world.store.claim({ limit: 10, lease })
    expect(claimed.map(({ message }) => message.id)).toEqual([expiry.eventId('t', start + 500), expiry.eventId('t', start + 600)])

    // A revoked subject becomes valid again only if the caller says so explicitly.
    await expiry.recordExpiry('r', start + 600, context)
    await expiry.revoke('r', revoked('r'))
    expect(await expiry.recordExpiry('r', start + 600, context)).toBe('revoked')
    expect(await expiry.recordExpiry('r', start + 600, context, { reissue: true })).toBe('recorded')
    expect(await world.decide('r', 600)).toBe('enqueued')
    expect(await expiry.revoke('r', revoked('r'))).toBe('expired')
    expect(await expiry.recordExpiry('r', start + 700, context)).toBe('recorded')
    expect(await expiry.revoke('r', revoked('r'))).toBe('revoked')
  })

  it.each(['alone', 'in a transaction'])(
    'R27: a subject that was issued again %s after it expired, and parked, can be revoked',
    async (how) => {
      await using world = await ExpiryWorld.open({ expiry: { grace: 1000 } })
      const { expiry, start } = world
      await expiry.recordExpiry('t', start, context)
      await world.decide('t', 0)
      if (how === 'alone') await expiry.recordExpiry('t', start + 5, context)
      else await world.world.redis.write(async (transaction) => expiry.recordExpiryIn(transaction, 't', start + 5, context))
      await world.at(5)
      expect(await expiry.decideExpiry({ subject: 't', dueAt: start + 5, context: undefined }, expired)).toBe('parked')
      expect(await expiry.revoke('t', revoked('t'))).toBe('revoked')
      expect(await expiry.listParked(5)).toEqual([])
      // The mark is kept relative to the due time of the parked expiry.
      expect(await world.world.command('ZSCORE', world.key('revoked'), 't')).toBe(String(start + 5 + 1000))
      await world.relay()
      expect(world.published).toEqual(['ticket.expired t', 'ticket.revoked t'])
    },
  )

  it('R28: a cutoff is never later than the clock of the server', async () => {
    await using world = await ExpiryWorld.open()
    const { expiry, start } = world
    await expiry.recordExpiry('past', start - 100, context)
    await expiry.recordExpiry('future', start + 1, context)
    const subjects = async (cutoff: number) => (await expiry.dueExpiries(10, { cutoff })).expiries.map(({ subject }) => subject)
    expect(await subjects(start + 1_000_000)).toEqual(['past'])
    expect(await subjects(start - 101)).toEqual([])
    const due = { subject: 'future', dueAt: start + 1, context }
    expect(await expiry.decideExpiry(due, expired, { cutoff: start + 1_000_000 })).toBe('not_due')
    const past = { subject: 'past', dueAt: start - 100, context }
    expect(await expiry.decideExpiry(past, expired, { cutoff: start - 101 })).toBe('not_due')
    expect(await expiry.decideExpiry(past, expired, { cutoff: start - 100 })).toBe('enqueued')
  })

  it('R29: an expiry without a context, a valid time or an event is parked with its reason, listed, and due again after rearmParked()', async () => {
    await using world = await ExpiryWorld.open()
    const { expiry, start } = world
    for (const subject of ['lost', 'poison', 'large', 'good']) await expiry.recordExpiry(subject, start, Buffer.from(subject))
    await world.world.command('HDEL', world.key('contexts'), 'lost')
    await world.world.command('ZADD', world.key('due'), '-inf', 'endless')
    await world.world.command('ZADD', world.key('due'), '12.5', 'broken')
    const decide = async () => {
      const { expiries } = await expiry.dueExpiries(10)
      const decisions: Record<string, string> = {}
      for (const due of expiries) {
        decisions[due.subject] = await expiry.decideExpiry(due, (one) => {
          if (one.subject === 'poison') throw new Error('no such holder')
          const data = one.subject === 'large' ? new Uint8Array(6_000_000) : one.context
          return expired({ ...one, context: data })
        })
      }
      return decisions
    }
    expect(await decide()).toEqual({
      endless: 'parked',
      broken: 'parked',
      lost: 'parked',
      poison: 'parked',
      large: 'parked',
      good: 'enqueued',
    })
    expect(await decide()).toEqual({})
    const parked = new Map((await expiry.listParked(10)).map((one) => [one.subject, one]))
    expect(parked.get('lost')).toEqual({ subject: 'lost', dueAt: start, parkedAt: start, reason: 'Its context is missing.' })
    expect(parked.get('poison')?.reason).toBe('Its event cannot be created: no such holder')
    expect(parked.get('large')?.reason).toContain('maxSize')
    expect(parked.get('endless')?.reason).toBe('Its due time is none.')
    expect(parked.size).toBe(5)
    expect(world.world.logger.at('error')).toHaveLength(5)

    expect(await expiry.rearmParked(['poison', 'unknown'])).toBe(1)
    expect(await world.decide('poison', 0)).toBe('enqueued')
    expect(await expiry.discardParked(['lost', 'endless', 'broken'], 'a test')).toBe(3)
    expect((await expiry.listParked(10)).map(({ subject }) => subject)).toEqual(['large'])
    expect(await expiry.revoke('large', revoked('large'))).toBe('revoked')
    expect(await expiry.listParked(10)).toEqual([])
    expect(await world.world.command('HLEN', world.key('contexts'))).toBe(0)
  })

  it('R29: an expiry is parked if its context is lost between the read and the decision', async () => {
    await using world = await ExpiryWorld.open()
    await world.expiry.recordExpiry('t', world.start, context)
    const [due] = (await world.expiry.dueExpiries(1)).expiries
    if (due === undefined) throw new Error('expected one due expiry')
    await world.world.command('DEL', world.key('contexts'))
    expect(await world.expiry.decideExpiry(due, expired)).toBe('parked')
    expect((await world.expiry.listParked(1))[0]?.reason).toBe('Its context is missing.')
    expect((await world.world.store.stats()).destinations).toEqual([])
  })

  it('R30: returns the oldest first, at most as many as requested, also over several shards', async () => {
    await using world = await ExpiryWorld.open({ outbox: { shards: 3 } })
    const { expiry, start } = world
    for (let number = 0; number < 30; number += 1) await expiry.recordExpiry(`t${number}`, start - ((number * 7) % 30), context)
    const seen: number[] = []
    for (let batch = await expiry.dueExpiries(8); batch.expiries.length > 0; batch = await expiry.dueExpiries(8)) {
      expect(batch.expiries.length).toBeLessThanOrEqual(8)
      for (const due of batch.expiries) {
        seen.push(due.dueAt)
        await expiry.decideExpiry(due, expired)
      }
    }
    expect(seen).toEqual(Array.from({ length: 30 }, (_, index) => start - 29 + index))
  })

  it('rejects an event that cannot be stored, and one with the id of another event', async () => {
    await using world = await ExpiryWorld.open()
    const { expiry } = world
    await expiry.revoke('t1', revoked('t1', 'same'))
    await expect(expiry.revoke('t2', revoked('t2', 'same'))).rejects.toMatchObject({ code: 'ACKORD_DUPLICATE_ID' })
    expect(await world.world.command('ZSCORE', world.key('revoked'), 't2')).toBeNull()
    const broken = { destination: '', message: new Message(new Uint8Array(), {}) }
    await expect(expiry.revoke('t3', broken)).rejects.toThrow('destination')
    expect(await expiry.revoke('t1', revoked('t1'))).toBe('duplicate')
    await world.relay()
    expect(world.published).toEqual(['ticket.revoked t1'])
  })

  it('reports a second revocation with the same id and other data as a duplicate while the first event is stored', async () => {
    await using world = await ExpiryWorld.open()
    const { expiry, start } = world
    const other = (id: string) => {
      const { destination, message } = revoked('t', id)
      return { destination, message: new Message(Uint8Array.of(1), message.attributes) }
    }
    await expiry.recordExpiry('t', start, context)
    expect(await expiry.revoke('t', revoked('t', 'same'))).toBe('revoked')
    expect(await expiry.revoke('t', other('same'))).toBe('duplicate')
    // The same holds for a subject that has expired; an event that is already stored is refused before any write.
    await expiry.recordExpiry('e', start, context)
    expect(await world.decide('e', 0)).toBe('enqueued')
    expect(await expiry.revoke('e', other('same'))).toBe('expired')
    const before = await world.world.dump(world.keys)
    await expect(expiry.revoke('e', other('same'), { afterExpiry: 'store' })).rejects.toMatchObject({ code: 'ACKORD_DUPLICATE_ID' })
    expect(await world.world.dump(world.keys)).toEqual(before)
  })

  it('stores an event after that of the expiry with afterExpiry: store', async () => {
    await using world = await ExpiryWorld.open()
    await world.expiry.recordExpiry('t', world.start, context)
    await world.decide('t', 0)
    expect(await world.expiry.revoke('t', revoked('t'), { afterExpiry: 'store' })).toBe('revoked')
    await world.relay()
    expect(world.published).toEqual(['ticket.expired t', 'ticket.revoked t'])
  })

  it('revokes in a script of the user, in one step with the ticket', async () => {
    await using world = await ExpiryWorld.open()
    const { redis, store, port } = world.world
    await world.expiry.recordExpiry('t', world.start, context)
    const ticket = redis.key(store.tagOf('t'), 'ticket', 't')
    await world.world.command('HSET', ticket, 'state', 'valid')
    const { keys, args } = world.expiry.prepareRevoke('t', revoked('t'))
    const lua = `${outboxLua}${expiryLua}
      if redis.call('HGET', KEYS[1], 'state') ~= 'valid' then return 'gone' end
      local problem = ackord.expiryProblem(2, 5)
      if problem then return redis.error_reply(problem) end
      local result = ackord.revokeExpiry(2, 2)
      redis.call('HSET', KEYS[1], 'state', result)
      return result`
    const evaluate = () => port.send({ name: 'EVAL', args: [lua, String(keys.length + 1), ticket, ...keys, '', ...args], keys: [2] })
    expect(await evaluate()).toBe('revoked')
    expect(await world.world.command('HGET', ticket, 'state')).toBe('revoked')
    expect(await evaluate()).toBe('gone')
    expect(await world.decide('t', 0)).toBe('revoked')
    await world.world.command('DEL', ticket)
  })

  it('removes marks and decisions when they have expired', async () => {
    await using world = await ExpiryWorld.open({ expiry: { grace: 1000, remember: 1000 } })
    const { expiry, start } = world
    for (let number = 0; number < 30; number += 1) {
      await expiry.recordExpiry(`e${number}`, start, context)
      await world.decide(`e${number}`, 0)
      await expiry.revoke(`r${number}`, revoked(`r${number}`))
    }
    await world.at(1001)
    for (let number = 30; number < 34; number += 1) {
      await expiry.recordExpiry(`e${number}`, start + 1000, context)
      await world.decide(`e${number}`, 1000)
      await expiry.revoke(`r${number}`, revoked(`r${number}`))
    }
    expect(await world.world.command('ZCARD', world.key('decided'))).toBe(8)
    expect(await world.world.command('ZCARD', world.key('revoked'))).toBe(4)
  })

  it.each([
    [{ nmae: 'x' }, 'nmae'],
    [{ grace: 0 }, 'grace'],
    [{ remember: Number.NaN }, 'remember'],
    [{ name: '' }, 'name'],
  ])('rejects invalid options: %o', async (options, named) => {
    await using world = await ExpiryWorld.open()
    expect(() => luaExpiry(world.world.store, namespace, options as LuaExpiryOptions)).toThrow(named)
  })

  it('rejects invalid arguments', async () => {
    await using world = await ExpiryWorld.open()
    const { expiry, world: inner } = world
    expect(() => luaExpiry(inner.store, 'tickets')).toThrow('namespace')
    expect(() => luaExpiry({ ...inner.store }, namespace)).toThrow('luaOutbox()')
    await expect(expiry.recordExpiry('', 1, context)).rejects.toThrow('subject')
    await expect(expiry.recordExpiry('\ud800', 1, context)).rejects.toThrow('subject')
    for (const dueAt of [Number.NaN, -1, 1.5, 9e15]) await expect(expiry.recordExpiry('t', dueAt, context)).rejects.toThrow('dueAt')
    await expect(expiry.recordExpiry('t', 1, new Uint8Array(5_242_881))).rejects.toThrow('5242880')
    await expect(expiry.recordExpiry('t', 1, 'text' as unknown as Uint8Array)).rejects.toThrow('context')
    await expect(expiry.dueExpiries(0)).rejects.toThrow('limit')
    await expect(expiry.dueExpiries(1, { cutoff: Number.NaN })).rejects.toThrow('cutoff')
  })
})

describe('R3, edge 1: a key of the wrong type', () => {
  const names = [...keyNames, ...expiryKeyNames]
  const types = [...keyTypes, ...expiryKeyTypes]
  it.each(names)('%s: every step of expiry fails with the name of the key, and writes nothing', async (name) => {
    await using world = await ExpiryWorld.open()
    const { expiry, start } = world
    await expiry.recordExpiry('t', start, context)
    await expiry.recordExpiry('p', start, context)
    await expiry.decideExpiry({ subject: 'p', dueAt: start, context: undefined }, expired)
    const place = names.indexOf(name)
    const key = world.keys[place] as string
    await world.world.command('DEL', key)
    if (types[place] === 'string') await world.world.command('RPUSH', key, 'a list')
    else await world.world.command('SET', key, 'a text')
    const before = await world.world.dump(world.keys)
    const steps = [
      () => expiry.recordExpiry('t', start + 1, context),
      () => expiry.dueExpiries(10),
      () => world.decide('t', 0),
      () => expiry.decideExpiry({ subject: 't', dueAt: start, context: undefined }, expired),
      () => expiry.revoke('t', revoked('t')),
      () => expiry.listParked(10),
      () => expiry.rearmParked(['p']),
      () => expiry.discardParked(['p'], 'x'),
    ]
    for (const step of steps) await expect(step(), String(step)).rejects.toThrow(key)
    expect(await world.world.dump(world.keys)).toEqual(before)
    expect(world.keys).toHaveLength(keyCount + expiryKeyNames.length)
  })
})

describe('R3, edge 2: memory is full', () => {
  it('stores no event and leaves the expiry unchanged, while steps that store nothing still work', async () => {
    await using server = await startRedis()
    await using world = await ExpiryWorld.open({ url: server.url })
    const { expiry, start } = world
    for (const subject of ['t', 'r', 'p']) await expiry.recordExpiry(subject, start, context)
    await expiry.revoke('r', revoked('r'))
    await world.world.redis.write(async (transaction) => expiry.recordExpiryIn(transaction, 'r', start, context))
    await world.world.command('CONFIG', 'SET', 'maxmemory', '1')
    const before = await world.world.dump(world.keys)
    await expect(world.decide('t', 0)).rejects.toThrow('OOM')
    await expect(expiry.revoke('t', revoked('t'))).rejects.toThrow('OOM')
    await expect(expiry.recordExpiry('t', start + 1, context)).rejects.toThrow('OOM')
    expect(await world.world.dump(world.keys)).toEqual(before)
    expect(await world.decide('r', 0)).toBe('revoked')
    expect(await expiry.decideExpiry({ subject: 'p', dueAt: start, context: undefined }, expired)).toBe('parked')
    await world.world.command('CONFIG', 'SET', 'maxmemory', '0')
    expect(await world.decide('t', 0)).toBe('enqueued')
  })
})

describe('R42', () => {
  it('expiry uses only commands and options of Redis 6.0, also in scripts', async () => {
    await using server = await startRedis()
    await using world = await ExpiryWorld.open({ url: server.url })
    await using recording = await recordRedis(server.url)
    const { expiry, start } = world
    for (const subject of ['a', 'b', 'c']) await expiry.recordExpiry(subject, start, context)
    await world.world.redis.write(async (transaction) => expiry.recordExpiryIn(transaction, 'd', start, context))
    await expiry.dueExpiries(10)
    await world.decide('a', 0)
    await expiry.revoke('b', revoked('b'))
    await expiry.decideExpiry({ subject: 'c', dueAt: start, context: undefined }, expired)
    await expiry.listParked(10)
    await expiry.rearmParked(['c'])
    const commands = await recording.commands()
    expect(problemsOn60(commands)).toEqual([])
    expect(commands.filter(({ inScript }) => inScript).length).toBeGreaterThan(50)
  })

  it('continues after SCRIPT FLUSH', async () => {
    await using server = await startRedis()
    await using world = await ExpiryWorld.open({ url: server.url })
    for (let round = 0; round < 2; round += 1) {
      await world.expiry.recordExpiry(`t${round}`, world.start, context)
      await world.world.command('SCRIPT', 'FLUSH')
      expect(await world.decide(`t${round}`, 0)).toBe('enqueued')
      await world.world.command('SCRIPT', 'FLUSH')
    }
    expect(world.world.reloads).toBeGreaterThanOrEqual(3)
    const claimed = await world.world.store.claim({ limit: 10, lease })
    expect(await world.world.store.settle(claimed.map(published))).toEqual(['applied', 'applied'])
  })
})

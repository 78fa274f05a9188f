import { silentLogger } from '@ackord/core'
import { deferred, trackedMessage } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { foreignRoot } from '../../../../scripts/servers/foreign/root.mjs'
import { inboxMiddleware, transactionMiddleware } from '../../src/index.ts'
import { idsOf, lease, record, StreamWorld } from '../outbox/stream/stream-world.ts'
import { startClockServer } from '../support/clock-server.ts'
import { deliver, errorOf } from '../support/deliver.ts'
import { openHandlingWorld, quiet } from '../support/handling-world.ts'
import { redisKinds } from '../support/redis-clients.ts'

const hour = 3_600_000
const [ioredis6] = redisKinds as readonly [(typeof redisKinds)[number]]

/** Two settlements: the record is published, or it failed and waits for a retry. */
const published = ({ id, token }: { readonly id: string; readonly token: string }) => ({ id, token, result: 'published' }) as const
const failed = ({ id, token }: { readonly id: string; readonly token: string }, retryAfter: number) =>
  ({ id, token, result: 'failed', retryAfter, error: 'down' }) as const

// The library that moves the clock is not available inside the unpacked root file system of a foreign server.
describe.skipIf(foreignRoot('redis') !== '')("the clock of the server itself, with the stream outbox's leases and delays", () => {
  it('is set back: what is new goes on at once, and what waits by that clock waits that much longer', async () => {
    await using server = await startClockServer()
    await using world = await StreamWorld.open({ url: server.url })
    const { store } = world
    await world.append(record('held'), record('abandoned'), record('fails'), record('delayed', { delay: 1000 }))
    const [held, abandoned, fails] = await store.claim({ limit: 3, lease })
    if (!(held && abandoned && fails)) throw new Error('expected three claimed records')
    await store.settle([failed(fails, 1000)])
    await server.setClock(-hour)
    await world.append(record('new'))
    const other = world.another()
    const claimed = await other.claim({ limit: 10, lease })
    expect(idsOf(claimed)).toEqual(['new'])
    // The holder of a record keeps it, and can renew and settle it.
    expect(await store.renew([held], lease)).toEqual([true])
    expect([await other.settle(claimed.map(published)), await store.settle([published(held)])]).toEqual([['applied'], ['applied']])
    expect(await other.claim({ limit: 10, lease })).toEqual([])
    // At the time that the clock showed before, all of them are due.
    await server.setClock(lease + 2000)
    expect(idsOf(await other.claim({ limit: 10, lease })).sort()).toEqual(['abandoned', 'delayed', 'fails'])
  })

  it('is set ahead: leases and delays run out early, and a process that lost its lease settles nothing', async () => {
    await using server = await startClockServer()
    await using world = await StreamWorld.open({ url: server.url })
    await world.append(record('held'), record('delayed', { delay: hour / 2 }))
    const held = await world.store.claim({ limit: 10, lease })
    expect(idsOf(held)).toEqual(['held'])
    await server.setClock(hour)
    const other = world.another()
    const taken = await other.claim({ limit: 10, lease })
    expect(taken.map(({ message, attempts }) => [message.id, attempts]).sort()).toEqual([
      ['delayed', 1],
      ['held', 2],
    ])
    expect(await world.store.settle(held.map(published))).toEqual(['lost'])
    expect(await other.settle(taken.map(published))).toEqual(['applied', 'applied'])
    expect(await other.claim({ limit: 10, lease })).toEqual([])
  })

  it('goes back and forth while events are appended: none is lost, and those of a destination stay in order', async () => {
    await using server = await startClockServer()
    await using world = await StreamWorld.open({ url: server.url })
    const ids: string[] = []
    for (const offset of [0, hour, -hour, 24 * hour, -24 * hour, 0]) {
      await server.setClock(offset)
      await world.append(record(`e${ids.length}`), record(`e${ids.length + 1}`))
      ids.push(`e${ids.length}`, `e${ids.length + 1}`)
    }
    const claimed = await world.store.claim({ limit: 100, lease })
    expect(idsOf(claimed)).toEqual(ids)
    expect(new Set(await world.store.settle(claimed.map(published)))).toEqual(new Set(['applied']))
  })
})

describe.skipIf(foreignRoot('redis') !== '')("the clock of the server itself, with the inbox's leases and the transaction", () => {
  async function openWorld() {
    const server = await startClockServer()
    const world = await openHandlingWorld(ioredis6, { url: server.url })
    const use = (inboxLease = 20_000) => [
      inboxMiddleware(world.redis, world.inbox({ lease: inboxLease, logger: silentLogger })),
      transactionMiddleware(world.redis, quiet),
    ]
    return {
      server,
      use,
      effects: async () => Number((await world.command('GET', world.key('effects'))) ?? 0),
      count: (context: Parameters<typeof world.redis.commands>[0]) => world.redis.commands(context).incr(world.key('effects')),
      async [Symbol.asyncDispose]() {
        await world[Symbol.asyncDispose]()
        await server[Symbol.asyncDispose]()
      },
    }
  }

  it.each([-hour, hour])('jumps by %d ms between two messages: each takes effect once, and duplicates are recognised', async (jump) => {
    await using world = await openWorld()
    const handle = async (_: unknown, context: Parameters<typeof world.count>[0]) => void (await world.count(context))
    for (const offset of [0, jump, 0]) {
      await world.server.setClock(offset)
      const [first, duplicate] = [trackedMessage(`m${offset}`), trackedMessage(`m${offset}`)]
      await deliver({ use: world.use(), handle }, first)
      await deliver({ use: world.use(), handle }, duplicate)
      expect([first.verdicts, duplicate.verdicts]).toEqual([['ack'], ['ack']])
    }
    expect(await world.effects()).toBe(2)
  })

  it('is set ahead while a handler runs: its lease has run out, it commits nothing, and the message is handled again', async () => {
    await using world = await openWorld()
    const message = trackedMessage('m1')
    await deliver(
      {
        use: world.use(),
        async handle(_, context) {
          await world.count(context)
          await world.server.setClock(hour)
        },
      },
      message,
    )
    expect([message.verdicts, errorOf(message).code, await world.effects()]).toEqual([['nack'], 'ACKORD_LEASE_LOST', 0])
    const again = trackedMessage('m1')
    await deliver({ use: world.use(), handle: async (_, context) => void (await world.count(context)) }, again)
    expect([again.verdicts, await world.effects()]).toEqual([['ack'], 1])
  })

  it('is set back while a handler runs: it commits, once', async () => {
    await using world = await openWorld()
    const message = trackedMessage('m1')
    await deliver(
      {
        use: world.use(),
        async handle(_, context) {
          await world.server.setClock(-hour)
          await world.count(context)
        },
      },
      message,
    )
    const duplicate = trackedMessage('m1')
    await deliver({ use: world.use(), handle: async (_, context) => void (await world.count(context)) }, duplicate)
    expect([message.verdicts, duplicate.verdicts, await world.effects()]).toEqual([['ack'], ['ack'], 1])
  })

  it('is set back while a process holds a message: others ask again after a lease at most, not after the time that was lost', async () => {
    await using world = await openWorld()
    const begun = deferred()
    const ended = deferred()
    const holder = trackedMessage('m1')
    const holding = deliver(
      {
        use: world.use(),
        async handle(_, context) {
          begun.resolve()
          await ended.promise
          await world.count(context)
        },
      },
      holder,
    )
    await begun.promise
    await world.server.setClock(-hour)
    const busy = trackedMessage('m1')
    await deliver({ use: world.use(), handle: async () => {} }, busy)
    expect([busy.verdicts, errorOf(busy).code]).toEqual([['nack'], 'ACKORD_INBOX_BUSY'])
    expect(busy.calls[0]?.options?.retryAfter).toBeLessThanOrEqual(20_000)
    ended.resolve()
    await holding
    expect([holder.verdicts, await world.effects()]).toEqual([['ack'], 1])
  })
})

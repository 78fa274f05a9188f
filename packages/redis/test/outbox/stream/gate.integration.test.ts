import { describe, expect, it } from 'vitest'
import { foreignRoot } from '../../../../../scripts/servers/foreign/root.mjs'
import { startRedis } from '../../../../../scripts/servers/index.mjs'
import type { RedisPort } from '../../../src/client/port.ts'
import { largeEntry } from '../../../src/outbox/stream/destination-stream.ts'
import { type StreamOutbox, streamOutbox } from '../../../src/outbox/stream/stream-outbox.ts'
import { Redis } from '../../../src/transaction/redis.ts'
import { startClockServer } from '../../support/clock-server.ts'
import { type RedisKind, redisKinds } from '../../support/redis-clients.ts'
import { idsOf, lease, record, records, StreamWorld } from './stream-world.ts'

const hour = 3_600_000

/** A store that records its calls: the name of each command, and 'a script' for a script. */
function recorded(world: StreamWorld): { readonly store: StreamOutbox; readonly calls: string[] } {
  const calls: string[] = []
  const port: RedisPort = {
    ...world.port,
    send(command, options) {
      calls.push(command.name)
      return world.port.send(command, options)
    },
    evaluate(...call) {
      calls.push('a script')
      return world.port.evaluate(...call)
    },
  }
  const store = streamOutbox(new Redis({}, port, { logger: world.logger }), { tags: [world.tag], claimInterval: 3_600_000 })
  return { store, calls }
}

/** A store that has claimed `limit` of the records and will read with XREADGROUP at its next claim. */
async function busyStore(world: StreamWorld, limit: number): Promise<ReturnType<typeof recorded>> {
  const busy = recorded(world)
  expect(await busy.store.claim({ limit, lease })).toHaveLength(limit)
  busy.calls.length = 0
  return busy
}

async function idOf(world: StreamWorld, messageId: string): Promise<string> {
  const { records: listed } = await world.store.list({}, { limit: 10_000 })
  return listed.find(({ message }) => message.id === messageId)?.id ?? ''
}

function large(id: string, size = largeEntry): ReturnType<typeof record> {
  return record(id, { data: new Uint8Array(size) })
}

describe('a busy destination', () => {
  it.each(redisKinds as readonly RedisKind[])('is read with XREADGROUP, each record once: $name', async (kind) => {
    await using world = await StreamWorld.open({ kind })
    const all = records(100)
    await world.append(...all)
    const { store, calls } = await busyStore(world, 10)
    const other = world.another()
    const claimed: (string | undefined)[] = []
    for (let round = 0; round < 6; round += 1) {
      claimed.push(...idsOf(await store.claim({ limit: 10, lease })))
      claimed.push(...idsOf(await other.claim({ limit: 5, lease })))
    }
    expect(calls).toContain('XREADGROUP')
    expect(claimed.sort()).toEqual(idsOf(all.slice(10)).sort())
  })

  it('shares a claim with the other busy ones', async () => {
    await using world = await StreamWorld.open()
    await world.append(...records(50, { destination: 'orders' }), ...records(50, { destination: 'bills' }))
    const { store, calls } = await busyStore(world, 10)
    const claimed = await store.claim({ limit: 10, lease })
    expect(calls).toContain('XREADGROUP')
    expect(claimed.filter(({ destination }) => destination === 'orders')).toHaveLength(5)
    expect(claimed.filter(({ destination }) => destination === 'bills')).toHaveLength(5)
  })

  it('is read by the script when a claim may take fewer bytes than its records could have', async () => {
    await using world = await StreamWorld.open()
    await world.append(...records(30))
    const { store, calls } = await busyStore(world, 10)
    expect(await store.claim({ limit: 10, lease, maxBytes: 10 * largeEntry - 1 })).toHaveLength(10)
    expect(calls).not.toContain('XREADGROUP')
    expect(await store.claim({ limit: 10, lease, maxBytes: 10 * largeEntry })).toHaveLength(10)
    expect(calls).toContain('XREADGROUP')
  })
})

// The library that moves the clock is not available inside the unpacked root file system of a foreign server.
it.skipIf(foreignRoot('redis') !== '')(
  'XREADGROUP claims records with their age by the clock of the server, which is never negative',
  async () => {
    await using server = await startClockServer()
    await using world = await StreamWorld.open({ url: server.url })
    await world.append(...records(30))
    await server.setClock(hour)
    const { store, calls } = await busyStore(world, 10)
    for (const { age } of await store.claim({ limit: 10, lease })) {
      expect(age).toBeGreaterThanOrEqual(hour)
      expect(age).toBeLessThan(hour + lease)
    }
    await server.setClock(-hour)
    expect((await store.claim({ limit: 10, lease })).map(({ age }) => age)).toEqual(Array.from({ length: 10 }, () => 0))
    expect(calls).toEqual(['a script', 'XREADGROUP', 'a script', 'XREADGROUP'])
  },
)

describe('the gate is closed', () => {
  it('by a large record: no claim takes more bytes than it may', async () => {
    await using world = await StreamWorld.open()
    await world.append(...records(20))
    const { store, calls } = await busyStore(world, 10)
    const maxBytes = 10 * largeEntry
    await world.append(large('l1', maxBytes - 100), large('l2', maxBytes - 100), ...records(5))
    const sizes: number[] = []
    const claimed: (string | undefined)[] = []
    for (let round = 0; round < 6; round += 1) {
      const some = await store.claim({ limit: 10, lease, maxBytes })
      claimed.push(...idsOf(some))
      sizes.push(some.reduce((sum, { message }) => sum + message.data.length, 0))
    }
    expect(claimed).toHaveLength(17)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(maxBytes)
    expect(calls.filter((call) => call === 'XREADGROUP')).toHaveLength(1)
  })

  it('by a large record that no relay has read when the first claim is made', async () => {
    await using world = await StreamWorld.open()
    await world.append(...records(10), large('l1'), ...records(20))
    const { store, calls } = await busyStore(world, 5)
    await store.claim({ limit: 5, lease })
    expect(calls).not.toContain('XREADGROUP')
  })

  it('until all records were read', async () => {
    await using world = await StreamWorld.open()
    await world.append(large('l1'), ...records(20))
    const { store, calls } = await busyStore(world, 5)
    for (let round = 0; round < 4; round += 1) await store.claim({ limit: 5, lease })
    expect(calls).not.toContain('XREADGROUP')
    await world.append(...records(20))
    for (let round = 0; round < 4; round += 1) expect(await store.claim({ limit: 5, lease })).not.toEqual([])
    expect(calls).toContain('XREADGROUP')
  })

  it('by a record that an operator parked before it was read, which is not claimed', async () => {
    await using world = await StreamWorld.open()
    await world.append(...records(30))
    const { store, calls } = await busyStore(world, 10)
    expect(await world.store.park([await idOf(world, 'e15')], 'wrong price')).toBe(1)
    const claimed = idsOf(await store.claim({ limit: 10, lease }))
    expect(claimed).toHaveLength(10)
    expect(claimed).not.toContain('e15')
    // The XREADGROUP call was refused, and the script read instead.
    expect(calls).toEqual(['a script', 'XREADGROUP', 'a script'])
    expect(await world.store.stats()).toMatchObject({ destinations: [{ leased: 20, parked: 1 }] })
  })

  it('by a record that an operator stored with its attempts, which still count', async () => {
    await using world = await StreamWorld.open()
    await world.append(record('failed'), ...records(30))
    const [failed] = await world.store.claim({ limit: 1, lease })
    if (failed === undefined) throw new Error('expected one claimed record')
    await world.store.settle([{ ...failed, result: 'parked', error: 'wrong price' }])
    const { store } = await busyStore(world, 10)
    const edit = { attributes: { subject: 'edited' } }
    expect(await world.store.rearm({ ids: [failed.id] }, edit, { keepAttempts: true })).toBe(1)
    const claimed = [...(await store.claim({ limit: 15, lease })), ...(await store.claim({ limit: 15, lease }))]
    expect(claimed).toHaveLength(21)
    expect(claimed.find(({ message }) => message.id === 'failed')).toMatchObject({ attempts: 2 })
  })

  it('when the group was lost, since large records may be unread again', async () => {
    await using world = await StreamWorld.open()
    await world.append(large('l1'), ...records(4))
    expect(await world.store.claim({ limit: 10, lease })).toHaveLength(5)
    await world.append(...records(20))
    const { store, calls } = await busyStore(world, 5)
    await store.claim({ limit: 5, lease })
    expect(calls).toContain('XREADGROUP')
    await world.command('XGROUP', 'DESTROY', world.key('to'), 'relay')
    calls.length = 0
    const maxBytes = 5 * largeEntry
    const claimed: (string | undefined)[] = []
    for (let round = 0; round < 6; round += 1) claimed.push(...idsOf(await store.claim({ limit: 5, lease, maxBytes })))
    expect(claimed).toHaveLength(25)
    expect(claimed).toContain('l1')
    // The first call detected that the group is lost.
    expect(calls.filter((call) => call === 'XREADGROUP')).toHaveLength(1)
  })
})

it('returns the records that XREADGROUP has read, if the script fails that is asked for more', async () => {
  await using world = await StreamWorld.open()
  await world.append(...records(15))
  let fails = false
  const port: RedisPort = {
    ...world.port,
    async send(command, options) {
      const reply = await world.port.send(command, options)
      if (command.name === 'XREADGROUP') fails = true
      return reply
    },
    evaluate: (...call) => (fails ? Promise.reject(new Error('ECONNRESET')) : world.port.evaluate(...call)),
  }
  const store = streamOutbox(new Redis({}, port, { logger: world.logger }), { tags: [world.tag], claimInterval: 3_600_000 })
  expect(await store.claim({ limit: 10, lease })).toHaveLength(10)
  expect(idsOf(await store.claim({ limit: 10, lease }))).toEqual(['e11', 'e12', 'e13', 'e14', 'e15'])
  expect(fails).toBe(true)
  await expect(store.claim({ limit: 10, lease })).rejects.toThrow('ECONNRESET')
})

it('without the permission for XGROUP SETID, the gate stays closed before parked records that the group has not read', async () => {
  await using server = await startRedis()
  await using admin = await StreamWorld.open({ url: server.url })
  await admin.command('ACL', 'SETUSER', 'relay', 'on', '>secret', '~*', '&*', '+@all', '-xgroup|setid')
  const url = new URL(server.url)
  url.username = 'relay'
  url.password = 'secret'
  await using limited = await StreamWorld.open({ url: url.href })
  await limited.append(record('e1'))
  await limited.store.claim({ limit: 10, lease })
  await limited.append(record('e2'))
  await limited.store.park([await idOf(limited, 'e2')], 'wrong price')
  expect(await limited.store.claim({ limit: 10, lease })).toEqual([])
  expect(await limited.command('TYPE', limited.key('gate'))).toBe('string')
  await limited.append(record('e3'))
  expect(idsOf(await limited.store.claim({ limit: 10, lease }))).toEqual(['e3'])
  expect(await limited.command('TYPE', limited.key('gate'))).toBe('stream')
})

it('without the permission for XREADGROUP, the script reads', async () => {
  await using world = await StreamWorld.open()
  await world.append(...records(30))
  const port: RedisPort = {
    ...world.port,
    send: (command, options) =>
      command.name === 'XREADGROUP'
        ? Promise.reject(new Error("NOPERM this user has no permissions to run the 'xreadgroup' command"))
        : world.port.send(command, options),
  }
  const store = streamOutbox(new Redis({}, port, { logger: world.logger }), { tags: [world.tag] })
  const claimed: (string | undefined)[] = []
  for (let round = 0; round < 3; round += 1) claimed.push(...idsOf(await store.claim({ limit: 10, lease })))
  expect(claimed).toHaveLength(30)
})

import type { OutboxStore, Outcome } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import type { StreamOutbox } from '../../src/index.ts'
import type { LuaOutbox } from '../../src/outbox/lua/index.ts'
import { LuaWorld, record as luaRecord } from './lua/lua-world.ts'
import { lease, StreamWorld, record as streamRecord } from './stream/stream-world.ts'

interface FailureWorld extends AsyncDisposable {
  readonly store: StreamOutbox | LuaOutbox
  /** Writes the field of a record as an older version does: the error alone. */
  writeAsBefore(id: string, error: string): Promise<unknown>
  /** How many records have a field. */
  fields(destination?: string): Promise<unknown>
}

async function openStream(): Promise<FailureWorld> {
  const world = await StreamWorld.open()
  await world.append(streamRecord('e1'))
  return {
    store: world.store,
    writeAsBefore: (id, error) => world.command('HSET', world.key('errors'), id.split('/')[0] as string, error),
    fields: (destination) => world.command('HLEN', world.key('errors', destination)),
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  }
}

async function openLua(): Promise<FailureWorld> {
  const world = await LuaWorld.open()
  await world.store.enqueue([luaRecord('e1')])
  return {
    store: world.store,
    writeAsBefore: (id, error) => world.command('HSET', world.key('errors'), id.split('.')[0] as string, error),
    fields: () => world.command('HLEN', world.key('errors')),
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  }
}

/** Claims the record and settles it. */
async function settle(store: OutboxStore, outcome: { error: string; cause?: string; parks?: boolean } | undefined): Promise<string> {
  const [claimed, ...others] = await store.claim({ limit: 10, lease })
  if (claimed === undefined || others.length > 0) throw new Error('Expected one claimed record.')
  const { id, token } = claimed
  const { parks = false, ...failure } = outcome ?? { error: '' }
  const settled: Outcome =
    outcome === undefined
      ? { id, token, result: 'published' }
      : parks
        ? { id, token, result: 'parked', ...failure }
        : { id, token, result: 'failed', retryAfter: 0, ...failure }
  expect(await store.settle([settled])).toEqual(['applied'])
  return id
}

const errorsOf = async ({ history }: StreamOutbox | LuaOutbox, id: string) => (await history(id)).map(({ error }) => error)

describe.each([
  { name: 'a stream outbox', open: openStream },
  { name: 'a Lua outbox', open: openLua },
])('the failures of a record in $name', ({ open }) => {
  it('that a relay of an older version settled are its last error', async () => {
    await using world = await open()
    const id = await settle(world.store, { error: 'refused 1', cause: 'refused N' })
    await world.writeAsBefore(id, 'refused 2')
    expect(await world.store.get(id)).toMatchObject({ lastError: 'refused 2', cause: undefined })
    expect(await world.store.history(id)).toEqual([])
    expect((await world.store.list({ error: 'REFUSED' }, { limit: 10 })).records).toHaveLength(1)

    await settle(world.store, { error: 'refused 3', cause: 'refused N' })
    expect(await world.store.get(id)).toMatchObject({ lastError: 'refused 3', cause: 'refused N', attempts: 2 })
    expect(await errorsOf(world.store, id)).toEqual(['refused 3'])
  })

  it('are those of relays and operators, and stay when it is re-armed', async () => {
    await using world = await open()
    const id = await settle(world.store, { error: 'refused', cause: 'refused' })
    const reason = `wrong price\nof ${'x'.repeat(300)}`
    expect(await world.store.park([id], reason)).toBe(1)
    expect(await world.store.get(id)).toMatchObject({ lastError: reason, cause: reason.slice(0, 200) })
    await world.store.rearm({ ids: [id] })
    expect(await errorsOf(world.store, id)).toEqual([reason.replace('\n', ' '), 'refused'])
  })

  it('are cut between lines, however many bytes a character has', async () => {
    await using world = await open()
    let id = ''
    for (let attempt = 1; attempt <= 12; attempt += 1) id = await settle(world.store, { error: `${attempt} ${'☃'.repeat(500)}` })
    const errors = await errorsOf(world.store, id)
    expect(errors.length).toBeGreaterThan(1)
    expect(errors).toEqual(errors.map((_, index) => `${12 - index} ${'☃'.repeat(500)}`.slice(0, 380)))
  })

  it('have no NUL, and may lack a cause', async () => {
    await using world = await open()
    const id = await settle(world.store, { error: 'refused\0twice', parks: true })
    expect(await world.store.get(id)).toMatchObject({ lastError: 'refusedtwice', cause: undefined })
    expect(await errorsOf(world.store, id)).toEqual(['refusedtwice'])
  })

  it('survive an edit, and are deleted when it is published', async () => {
    await using world = await open()
    const before = await settle(world.store, { error: 'no route', cause: 'no route', parks: true })
    expect(await world.store.rearm({ ids: [before] }, { destination: 'new' })).toBe(1)
    const [edited] = (await world.store.list({}, { limit: 10 })).records
    expect(edited).toMatchObject({ destination: 'new', attempts: 0, lastError: 'no route', cause: 'no route' })
    const id = await settle(world.store, { error: 'refused', cause: 'refused' })
    expect(await errorsOf(world.store, id)).toEqual(['refused', 'no route'])

    await settle(world.store, undefined)
    expect([await world.fields(), await world.fields('new')]).toEqual([0, 0])
    expect(await world.store.history(id)).toEqual([])
  })

  it('are deleted when it is published at its first attempt after an edit', async () => {
    await using world = await open()
    const before = await settle(world.store, { error: 'no route', parks: true })
    await world.store.rearm({ ids: [before] }, { destination: 'new' })
    await settle(world.store, undefined)
    expect([await world.fields(), await world.fields('new')]).toEqual([0, 0])
  })
})

it('a record that a Lua outbox stores has a redacted cause and history', async () => {
  await using world = await LuaWorld.open({ outbox: { redact: (error) => error.replaceAll('secret', '…') } })
  await world.store.enqueue([luaRecord('e1')])
  const id = await settle(world.store, { error: 'the secret 17', cause: 'the secret N' })
  expect(await world.store.get(id)).toMatchObject({ lastError: 'the … 17', cause: 'the … N' })
  expect(await errorsOf(world.store, id)).toEqual(['the … 17'])
})

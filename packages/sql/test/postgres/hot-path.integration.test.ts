import { jsonMarshaler, marshal, type PublishResult, type RawMessage, rootContext, silentLogger } from '@ackord/core'
import { type ClaimedRecord, type OutboxStore, Relay } from '@ackord/outbox'
import { deferred } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { type SqlOutbox, sqlOutbox, transactional } from '../../src/index.ts'
import { command, event, failureOf, type TestHandle, type WorldKind, worldKinds } from '../support/world.ts'

const record = (id: string, options: { readonly delay?: number } = {}) => ({
  destination: 'events',
  message: marshal(event(id), jsonMarshaler),
  ...options,
})

/** Opens an outbox and a relay that polls once, and afterwards only when it is woken. */
async function openRelay(kind: WorldKind, answer: (messages: readonly RawMessage[]) => Promise<readonly PublishResult[]> = takeAll) {
  const world = await kind.open()
  const { database, schema } = world
  const options = { schema, logger: silentLogger }
  const outbox: SqlOutbox<TestHandle> = sqlOutbox(database, options)
  const published: RawMessage[] = []
  const claimed: (string | undefined)[] = []
  let onChange = () => {}
  const polled = deferred()
  const store: OutboxStore = {
    ...outbox,
    async claim(asked) {
      const found = await outbox.claim(asked)
      for (const { message } of found) claimed.push(message.id)
      polled.resolve()
      return found
    },
  }
  const relay = new Relay(store, {
    publisher: {
      async publish(_, messages) {
        const results = await answer(messages)
        for (const [index, message] of messages.entries()) if (results[index]?.ok === true) published.push(message)
        onChange()
        return results
      },
    },
    logger: silentLogger,
    statsInterval: false,
    pollInterval: 600_000,
    maxPollInterval: 600_000,
  }).start()
  await polled.promise
  return {
    ...world,
    options,
    outbox,
    relay,
    claimed,
    published,
    ids: () => published.map(({ id }) => id),
    /** Resolves to the rows of the outbox, as soon as every row matches `expected`. */
    async stored(expected: (row: Record<string, unknown>) => boolean = () => true) {
      for (;;) {
        const rows = await world.query(`SELECT * FROM ${schema}.ackord_outbox ORDER BY seq`)
        if (rows.every(expected)) return rows
      }
    },
    append: (...records: readonly ReturnType<typeof record>[]) => database.write((transaction) => outbox.append(transaction, records)),
    publishes: (count: number) =>
      new Promise<void>((resolve) => {
        onChange = () => {
          if (published.length >= count) resolve()
        }
        onChange()
      }),
    async [Symbol.asyncDispose]() {
      await relay.stop()
      await world[Symbol.asyncDispose]()
    },
  }
}

async function takeAll(messages: readonly RawMessage[]): Promise<readonly PublishResult[]> {
  return messages.map(() => ({ ok: true }))
}

describe.each(worldKinds)('the hot path on $name', (kind) => {
  it('publishes committed records from memory, without a claim', async () => {
    await using world = await openRelay(kind)
    await world.append(record('e-1'), record('e-2'))
    await world.publishes(2)
    await world.relay.stop()
    expect([world.ids(), world.claimed, await world.stored()]).toEqual([['e-1', 'e-2'], [], []])
  })

  it('publishes the outputs of handlers after their commit', async () => {
    await using world = await openRelay(kind)
    const { database, options } = world
    const middleware = transactional(database, {
      inbox: { consumer: 'orders', schema: options.schema },
      outbox: { destination: 'events', schema: options.schema },
    })
    const { message } = command('1')
    const inside: unknown[] = []
    await middleware(async () => {
      inside.push(...world.ids())
      return [event('e-1')]
    })(message, message.context(rootContext()))
    await world.publishes(1)
    expect([inside, world.ids(), world.claimed]).toEqual([[], ['e-1'], []])
  })

  it('publishes nothing that was rolled back', async () => {
    await using world = await openRelay(kind)
    const { database, outbox } = world
    const failure = new Error('no')
    const rejected = database.write(async (transaction) => {
      await outbox.append(transaction, [record('e-1')])
      throw failure
    })
    expect(await failureOf(rejected)).toBe(failure)
    await world.append(record('e-2'))
    await world.publishes(1)
    expect([world.ids(), world.claimed]).toEqual([['e-2'], []])
  })

  it('is for whole transactions: records of a savepoint, late ones and large numbers are claimed', async () => {
    await using world = await openRelay(kind)
    const { database, outbox } = world
    await database.write(async () => {
      await database.write(async (nested) => {
        await outbox.append(nested, [record('nested')])
      })
    })
    await world.publishes(1)
    await world.append(record('late', { delay: 1 }))
    await world.append(...Array.from({ length: 17 }, (_, index) => record(`many-${index}`)))
    await world.publishes(19)
    expect(world.claimed.toSorted()).toEqual(world.ids().toSorted())
  })

  it('hides its records from claims, and releases them when it is gone', async () => {
    await using world = await openRelay(kind)
    const { outbox } = world
    const other = sqlOutbox(world.database, world.options)
    await world.relay.stop()
    const taken: ClaimedRecord[] = []
    const detach = outbox.attach?.({ lease: () => 60_000, take: (records) => void taken.push(...records) })
    await world.append(record('e-1'))
    const claim = () => other.claim({ limit: 10, lease: 1000 })
    expect([taken.map(({ age }) => age), await claim()]).toEqual([[0], []])
    const [held] = (await other.list({}, { limit: 1 })).records
    expect(held).toMatchObject({ id: taken[0]?.id, state: 'leased', attempts: 1 })
    await world.query(`UPDATE ${world.schema}.ackord_outbox SET lease_until = clock_timestamp() - interval '1 second'`)
    expect((await claim()).map(({ attempts }) => attempts)).toEqual([2])
    detach?.()
    await world.append(record('e-2'))
    expect([taken.length, (await claim()).length]).toEqual([1, 1])
  })

  it('skips a destination that is down', async () => {
    let down = true
    await using world = await openRelay(kind, async (messages) =>
      messages.map(() => (down ? { ok: false, error: new Error('down'), scope: 'destination' } : { ok: true })),
    )
    await world.append(record('e-1'))
    await world.stored(({ lease_token: token }) => token === null)
    expect(world.relay.health().downDestinations).toEqual(['events'])
    await world.append(record('e-2'))
    expect((await world.stored()).map(({ lease_token: token, attempts }) => [token, attempts])).toEqual([
      [null, 0],
      [null, 0],
    ])
    down = false
    await world.publishes(2)
    // A trial claims more records than it sends, and releases the rest.
    expect([...new Set(world.claimed)].toSorted()).toEqual(['e-1', 'e-2'])
  })

  it('publishes the same as a claim would', async () => {
    await using world = await openRelay(kind)
    const { database, outbox } = world
    const message = marshal(event('e-1', { partitionkey: 'k', time: '2026-01-01T00:00:00Z', custom: 'ä' }), jsonMarshaler)
    await world.append({ destination: 'events', message })
    await world.publishes(1)
    await world.relay.stop()
    await database.write((transaction) => outbox.append(transaction, [{ destination: 'events', message }]))
    const [claimed] = await outbox.claim({ limit: 1, lease: 1000 })
    expect(world.published[0]?.attributes).toEqual(claimed?.message.attributes)
    expect(world.published[0]?.data).toEqual(claimed?.message.data)
  })

  it('settles its records when it stops', async () => {
    const slow = deferred()
    const sending = deferred()
    await using world = await openRelay(kind, async (messages) => {
      sending.resolve()
      await slow.promise
      return await takeAll(messages)
    })
    await world.append(record('e-1'))
    await sending.promise
    const stopping = world.relay.stop()
    await world.append(record('e-2'))
    slow.resolve()
    await stopping
    expect((await world.stored()).map(({ id, lease_token: token, attempts }) => [id, token, attempts])).toEqual([['e-2', null, 0]])
    expect(world.ids()).toEqual(['e-1'])
  })
})

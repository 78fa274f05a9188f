import { jsonMarshaler, marshal, silentLogger } from '@ackord/core'
import { expect, it } from 'vitest'
import { sqlOutbox } from '../../src/index.ts'
import { type ClientWorld, onEachClient } from '../support/client-worlds.ts'
import { event } from '../support/world.ts'

function testReasons<Handle>(name: string, open: () => Promise<ClientWorld<Handle>>): void {
  it(`park() accepts any string as a reason, on ${name}`, async () => {
    await using world = await open()
    const outbox = sqlOutbox(world.database, { logger: silentLogger })
    const message = marshal(event('e1'), jsonMarshaler)
    await world.database.write((transaction) => outbox.append(transaction, [{ destination: 'events', message }]))
    const { records } = await outbox.list({}, { limit: 1 })
    const ids = records.map(({ id }) => id)
    expect(await outbox.park(ids, `because\0${'x'.repeat(100_000)}`)).toBe(1)
    expect((await outbox.get(ids[0] ?? ''))?.lastError).toMatch(/^because\uFFFDx{1000}/)
  })
}

onEachClient(testReasons)

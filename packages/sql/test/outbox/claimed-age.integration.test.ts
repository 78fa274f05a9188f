import { jsonMarshaler, marshal, silentLogger } from '@ackord/core'
import { expect, it } from 'vitest'
import { sqlOutbox } from '../../src/index.ts'
import { sqliteKinds } from '../sqlite/support/sqlite-world.ts'
import { type ClientWorld, onEachClient } from '../support/client-worlds.ts'
import { event } from '../support/world.ts'

function testAges<Handle>(name: string, open: () => Promise<ClientWorld<Handle>>): void {
  const later = sqliteKinds.some((kind) => kind.name === name) ? String(Date.UTC(2999, 0)) : "'2999-01-01'"

  it.each(['none', 'perKey'] as const)(`the age of a claimed record is never negative, on ${name}, with order %s`, async (order) => {
    await using world = await open()
    const outbox = sqlOutbox(world.database, { logger: silentLogger, order })
    const message = marshal(event('e1'), jsonMarshaler)
    await world.database.write((transaction) => outbox.append(transaction, [{ destination: 'events', message }]))
    // As if the clock of the database had been set back since then.
    await world.query(`UPDATE ackord_outbox SET created_at = ${later}`)
    const [claimed] = await outbox.claim({ limit: 1, lease: 60_000 })
    expect([claimed?.message.id, claimed?.age]).toEqual(['e1', 0])
  })
}

onEachClient(testAges)

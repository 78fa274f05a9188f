import { Message, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { sqlOutbox } from '../../src/index.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { event, openPg } from '../support/world.ts'

describe.each(['none', 'perKey'] as const)('settling with order %s', (order) => {
  it.each([
    ['some of those that lie together', 1, 2],
    ['some that are far apart', 1, 40],
    ['those of more destinations than a statement has parts for', 12, 3],
  ])('deletes %s and nothing between them', async (_, destinations, step) => {
    await using world = await openPg()
    const database = fromPg(world.pool, { order })
    const outbox = sqlOutbox(database, { logger: silentLogger })
    const records = Array.from({ length: 400 }, (_unused, index) => ({
      destination: `events-${index % destinations}`,
      message: new Message(new Uint8Array([1]), event(`e${index}`).attributes),
    }))
    await database.write(async (transaction) => await outbox.append(transaction, records))
    const claimed = await outbox.claim({ limit: 400, lease: 60_000 })
    expect(claimed).toHaveLength(400)
    const chosen = claimed.filter((_record, index) => index % step === 0)
    const foreign = claimed.filter((_record, index) => index % step === 1).map(({ id }) => ({ id, token: 'of somebody else' }))

    const outcomes = [...chosen, ...foreign].map(({ id, token }) => ({ id, token, result: 'published' as const }))
    const answers = await outbox.settle(outcomes)
    expect(answers).toEqual([...chosen.map(() => 'applied'), ...foreign.map(() => 'lost')])
    const left = await world.query('SELECT seq::text AS id FROM ackord_outbox ORDER BY ackord_outbox.seq')
    const gone = new Set(chosen.map(({ id }) => id))
    expect(left.map(({ id }) => id)).toEqual(claimed.map(({ id }) => id).filter((id) => !gone.has(id)))
  })
})

import { jsonMarshaler, marshal, silentLogger } from '@ackord/core'
import { expect, it } from 'vitest'
import { sqlOutbox } from '../../src/index.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { event, openPg } from '../support/world.ts'

it('a claim whose second statement fails returns the records of the first, which lose no attempt', async () => {
  await using world = await openPg()
  let claims = 0
  // Fails as a deadlock does. The first claim leaves shares of other destinations unused, so a second one fills the batch.
  const failing = {
    query: (config: { readonly text?: string } | string, ...rest: readonly unknown[]) => {
      const text = typeof config === 'string' ? config : (config.text ?? '')
      if (text.includes('attempts = o.attempts + 1') && ++claims === 2)
        throw Object.assign(new Error('deadlock detected'), { code: '40P01' })
      return (world.pool.query as (...args: readonly unknown[]) => unknown)(config, ...rest)
    },
  }
  const outbox = sqlOutbox(world.database, { schema: world.schema, logger: silentLogger })
  const records = Array.from({ length: 10 }, (_, index) => ({
    destination: index === 0 ? 'few' : 'many',
    message: marshal(event(`e${index}`), jsonMarshaler),
  }))
  await world.database.write((transaction) => outbox.append(transaction, records))
  const claiming = sqlOutbox(fromPg(Object.assign(Object.create(world.pool), failing), { schema: world.schema, logger: silentLogger }), {
    logger: silentLogger,
  })
  const claimed = await claiming.claim({ limit: 8, lease: 60_000 })
  expect(claims).toBe(2)
  expect(claimed.map(({ destination }) => destination).toSorted()).toEqual(['few', 'many', 'many', 'many', 'many'])
  await outbox.release(claimed)
  const { records: left } = await outbox.list({ state: 'ready' }, { limit: 100 })
  expect(left.map(({ attempts }) => attempts)).toEqual(Array.from({ length: 10 }, () => 0))
})

import { Relay } from '@ackord/outbox'
import { ResultTable, testOrderedOutbox } from '@ackord/testkit'
import { afterAll, describe, it } from 'vitest'
import { redisKinds } from '../../support/redis-clients.ts'
import { luaOutboxWorld } from './conformance-world.ts'

const results = new ResultTable()
afterAll(() => console.log(results.format()))

for (const kind of redisKinds.filter(({ name }) => ['ioredis 6', 'node-redis on a cluster'].includes(name))) {
  const open = luaOutboxWorld(kind, { order: 'perKey' })
  afterAll(() => open[Symbol.asyncDispose]())
  testOrderedOutbox(
    { describe, it },
    {
      name: `LuaOutbox, ${kind.name}`,
      open,
      createRelay: (store, setup) => new Relay(store, setup),
      depth: kind.name === 'ioredis 6' ? 'whole' : 'basic',
      results,
    },
  )
}

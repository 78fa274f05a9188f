import { Relay } from '@ackord/outbox'
import { ResultTable, testOutboxStore, testRelay } from '@ackord/testkit'
import { afterAll, describe, it } from 'vitest'
import { redisKinds } from '../../support/redis-clients.ts'
import { luaOutboxWorld } from './conformance-world.ts'

const results = new ResultTable()
afterAll(() => console.log(results.format()))

// The scripts are the same whichever client sends them, and the suite of the port runs on all clients: here one on a server and one on a cluster are enough.
const kinds =
  process.env['ACKORD_PROOF'] === '1'
    ? redisKinds
    : redisKinds.filter(({ name }) => ['ioredis 6', 'node-redis on a cluster'].includes(name))

for (const kind of kinds) {
  const open = luaOutboxWorld(kind)
  afterAll(() => open[Symbol.asyncDispose]())
  const name = `LuaOutbox, ${kind.name}`
  testOutboxStore({ describe, it }, { name, open, features: { savepoints: true, delay: true, retain: true }, model: { runs: 10 }, results })
  testRelay({ describe, it }, { name, openStore: open, createRelay: (store, setup) => new Relay(store, setup), results })
}

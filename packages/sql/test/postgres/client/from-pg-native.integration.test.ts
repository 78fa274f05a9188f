import { Message, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { depthOfOtherClients } from '../../../../../scripts/test-depth.mjs'
import { sqlOutbox } from '../../../src/index.ts'
import { testAdapter } from '../../support/adapter-suite.ts'
import { testConformance, testOrder } from '../../support/conformance.ts'
import { event } from '../../support/world.ts'
import { openNative } from '../support/native-world.ts'

// The complete suites run on pg by default; on this client they run only in `make proof`.
testConformance('pg native', openNative, depthOfOtherClients)
testOrder('pg native', openNative, depthOfOtherClients)
testAdapter('pg native', openNative)

describe('fromPg() on the native client of pg', () => {
  it.each(['in a transaction of ours', "in a transaction of the user's own"])('stores bytes unchanged %s', async (whose) => {
    await using world = await openNative()
    const outbox = sqlOutbox(world.database, { logger: silentLogger })
    // Zero bytes terminate a C string, and backslashes start an escape sequence.
    const data = new Uint8Array([0, 255, 92, 92, 120, 0, ...Buffer.from('{"path":"C:\\\\new"}'), 0])
    const append = (transaction: typeof world.root) =>
      outbox.append(transaction, [{ destination: 'events', message: new Message(data, event('e-1').attributes) }])
    if (whose.endsWith('ours')) await world.database.write(append)
    else await world.begin((transaction) => append(transaction).then(() => {}))
    const [record] = await outbox.claim({ limit: 1, lease: 1000 })
    expect(record?.message.data).toEqual(data)
  })
})

import { jsonMarshaler, marshal, silentLogger } from '@ackord/core'
import { expect, it } from 'vitest'
import { sqlOutbox } from '../../src/index.ts'
import { type ClientWorld, onEachClient } from '../support/client-worlds.ts'
import { event } from '../support/world.ts'

const record = (destination: string, id: string, size: number, partitionkey?: string) => ({
  destination,
  message: marshal(event(id, partitionkey === undefined ? {} : { partitionkey }), jsonMarshaler).copy(new Uint8Array(size)),
})

function testLargeClaims<Handle>(name: string, open: () => Promise<ClientWorld<Handle>>): void {
  it.each([
    { order: 'none', key: undefined, destinations: ['failing', 'working'] },
    { order: 'none', key: undefined, destinations: ['same', 'same'] },
    { order: 'perKey', key: undefined, destinations: ['failing', 'working'] },
    { order: 'perKey', key: undefined, destinations: ['same', 'same'] },
    { order: 'perKey', key: 'k', destinations: ['same', 'same'] },
  ] as const)(
    `a record larger than a whole claim is eventually claimed, even if there are always due retries, on ${name}: %j`,
    async (given) => {
      await using world = await open()
      const { order, key, destinations } = given
      const outbox = sqlOutbox(world.database, { logger: silentLogger, order })
      const append = (one: ReturnType<typeof record>) => world.database.write((transaction) => outbox.append(transaction, [one]))
      const claim = async () => {
        const records = await outbox.claim({ limit: 10, maxBytes: 1000, lease: 30_000 })
        // The records are due again immediately.
        await outbox.settle(records.map(({ id, token }) => ({ id, token, result: 'failed', error: 'failed', retryAfter: 0 })))
        return records.map(({ message }) => message.id)
      }
      await append(record(destinations[0], 'small', 10, key))
      expect(await claim()).toEqual(['small'])
      await append(record(destinations[1], 'large', 5000))
      const claimed: unknown[] = []
      // Each claim returns one of the two records, with equal probability.
      for (let count = 0; count < 60 && !claimed.includes('large'); count += 1) claimed.push(...(await claim()))
      expect(claimed).toContain('large')
    },
  )
}

onEachClient(testLargeClaims)

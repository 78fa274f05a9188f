import { AckordError } from '@ackord/core'
import { expect, it } from 'vitest'
import type { RelayReport } from '../../src/store/outbox-admin.ts'
import { findPartition, partitionRanges } from '../../src/store/partition-ranges.ts'

it.each<[readonly number[], string]>([
  [[], ''],
  [[7], '7'],
  [[0, 1, 2, 3], '0-3'],
  [[32, 2, 0, 1, 33, 200], '0-2, 32-33, 200'],
])('the partitions %j are written as %j', (partitions, text) => {
  expect(partitionRanges(partitions)).toBe(text)
})

const relayWith = (id: string, partitions: number | undefined, ownedPartitions?: string) =>
  ({ id, partitions, ownedPartitions }) as RelayReport

it('the owner of a partition is the relay that has reported it', async () => {
  const relays = [relayWith('a', 4, '0-2, 32'), relayWith('older', 5), relayWith('new', 0), relayWith('b', 11, '3, 20-29')]
  const ownerOf = async (partition: number) => {
    const found = await findPartition({ relays: async () => relays }, { partition, state: 'ready' })
    expect(found?.number).toBe(partition)
    return found?.owner?.id
  }
  const owners = await Promise.all([0, 2, 3, 4, 19, 20, 29, 30, 32, 200].map(ownerOf))
  expect(owners).toEqual(['a', 'a', 'b', undefined, undefined, 'b', 'b', undefined, 'a', undefined])
  expect(await findPartition({ relays: async () => relays }, { partition: 0, state: 'published' })).toBeUndefined()
  expect(await findPartition({ relays: async () => relays }, { partition: undefined, state: 'ready' })).toBeUndefined()
})

it('a record has no partition where no relay publishes with order per key', async () => {
  const relays = async () => [relayWith('a', undefined)]
  const outdated = async () => {
    throw new AckordError('ACKORD_SCHEMA', 'The tables have an older version.')
  }
  for (const admin of [{}, { relays }, { relays: outdated }])
    expect(await findPartition(admin, { partition: 1, state: 'ready' })).toBeUndefined()
})

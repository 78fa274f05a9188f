import assert from 'node:assert/strict'
import type { TrackedMessage } from '../tracked-message.ts'
import type { TransactionWorld } from './transaction-world.ts'

/** The message of a handler that writes 'order' has only this verdict, and what the handler did is not there. */
export async function assertNoTrace(world: TransactionWorld, order: TrackedMessage, verdict: 'nack' | 'reject'): Promise<void> {
  assert.deepEqual(order.verdicts, [verdict])
  assert.equal(await world.read('order'), undefined)
  assert.deepEqual(await world.events(), [])
}

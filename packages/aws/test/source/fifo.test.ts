import { describe, expect, it } from 'vitest'
import { expired, internalError } from '../support/fake-sqs.ts'
import { bodyOf, openVirtualQueue, type VirtualQueue } from '../support/virtual-queue.ts'

/** Acks all messages that are stored, one after the other. */
async function drain(queue: VirtualQueue): Promise<readonly string[]> {
  const seen: string[] = []
  while (queue.sqs.stored.length > 0) {
    const message = await queue.next()
    seen.push(bodyOf(message))
    await queue.settled(message.ack())
  }
  return seen
}

describe('messages of a group that SQS delivers together', () => {
  it('are handed out one at a time in their order, and do not delay other groups', async () => {
    await using queue = openVirtualQueue({ fifo: true })
    queue.sqs.add(['a1', 'a2', 'a3'], 'a')
    queue.sqs.add(['b1'], 'b')
    const [a1, b1] = [await queue.next(), await queue.next()]
    expect([a1, b1].map(bodyOf)).toEqual(['a1', 'b1'])
    await queue.settled(a1.ack())
    const a2 = await queue.next()
    expect(bodyOf(a2)).toBe('a2')
    await queue.settled(b1.ack())
    await queue.settled(a2.ack())
    expect(await drain(queue)).toEqual(['a3'])
  })

  it.each([0, 60_000])('are returned behind one that is nacked with a delay of %i ms, and come again after it', async (retryAfter) => {
    await using queue = openVirtualQueue({ fifo: true })
    queue.sqs.add(['a1', 'a2', 'a3'], 'a')
    const first = await queue.next()
    await queue.settled(first.nack(new Error('not now'), { retryAfter }))
    const again = await queue.next()
    expect([bodyOf(again), again.deliveryCount]).toEqual(['a1', 2])
    await queue.settled(again.ack())
    const second = await queue.next()
    // No handler has seen its first delivery.
    expect([bodyOf(second), second.deliveryCount]).toEqual(['a2', 1])
    await queue.settled(second.ack())
    expect(await drain(queue)).toEqual(['a3'])
  })

  it('are returned behind one whose ack failed, because SQS delivers that one again', async () => {
    await using queue = openVirtualQueue({ fifo: true, visibilityTimeout: 10_000 })
    queue.sqs.add(['a1', 'a2', 'a3'], 'a')
    const first = await queue.next()
    queue.sqs.refuse = ({ operation }) => (operation === 'deleteMessageBatch' ? internalError : undefined)
    await expect(queue.settled(first.ack())).rejects.toMatchObject({ code: 'ACKORD_LEASE_LOST' })
    queue.sqs.refuse = () => undefined
    expect(await drain(queue)).toEqual(['a1', 'a2', 'a3'])
  })

  it('are returned behind one whose visibility timeout was over while it waited', async () => {
    await using queue = openVirtualQueue({ fifo: true, visibilityTimeout: 10_000 })
    queue.sqs.add(['a1', 'a2', 'a3'], 'a')
    const first = await queue.next()
    queue.sqs.refuse = ({ body, operation }) => (body === 'a2' && operation === 'changeMessageVisibilityBatch' ? expired : undefined)
    await queue.runtime.advance(4000)
    queue.sqs.refuse = () => undefined
    await queue.settled(first.ack())
    // They come again when SQS has given up on a2, which was still invisible there.
    expect(await drain(queue)).toEqual(['a2', 'a3'])
  })

  it('wait for the one being handled, also if SQS delivers all of them again meanwhile', async () => {
    await using queue = openVirtualQueue({ fifo: true, visibilityTimeout: 10_000, waitTime: 1000 })
    queue.sqs.add(['a1', 'a2', 'a3'], 'a')
    const first = await queue.next()
    queue.sqs.refuse = ({ body, operation }) => (body === 'a2' && operation === 'changeMessageVisibilityBatch' ? expired : undefined)
    await queue.runtime.advance(4000)
    queue.sqs.refuse = () => undefined
    for (const body of ['a1', 'a2', 'a3']) queue.sqs.expire(body)
    expect(await queue.isQuiet(5000)).toBe(true)
    expect(await queue.settled(first.ack())).toBe(true)
    expect(await drain(queue)).toEqual(['a2', 'a3'])
  })

  it('are returned when the iteration is left, the last one first, and the one being handled can still be settled', async () => {
    await using queue = openVirtualQueue({ fifo: true })
    queue.sqs.add(['a1', 'a2', 'a3'], 'a')
    const first = await queue.next()
    await queue.leave()
    expect(queue.sqs.entries.map(({ body, seconds }) => [body, seconds])).toEqual([
      ['a3', 0],
      ['a2', 0],
    ])
    expect(await queue.settled(first.ack())).toBe(true)
    expect(queue.sqs.stored).toEqual(['a2', 'a3'])
  })
})

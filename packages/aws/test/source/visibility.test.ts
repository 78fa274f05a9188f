import { deferred } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { expired, internalError } from '../support/fake-sqs.ts'
import { bodyOf, openVirtualQueue, type VirtualQueue } from '../support/virtual-queue.ts'

/** From now on SQS answers no deletion and no change of the visibility, until `answer()` is called. */
function holdRequests({ sqs }: VirtualQueue) {
  const held = deferred()
  let count = 0
  sqs.before = () => {
    count += 1
    return held.promise
  }
  return {
    /** The number of requests that have arrived. */
    arrived: () => count,
    answer() {
      sqs.before = async () => {}
      held.resolve()
    },
  }
}

const minute = 60_000
const hour = 60 * minute

describe('the visibility timeout', () => {
  it('is extended three times within it while a handler runs, and no longer after the ack', async () => {
    await using queue = openVirtualQueue({ visibilityTimeout: 30_000 })
    queue.sqs.add(['slow'])
    const message = await queue.next()
    await queue.runtime.advance(5 * minute)
    expect(queue.sqs.entries).toHaveLength(30)
    expect(new Set(queue.sqs.entries.map(({ seconds }) => seconds))).toEqual(new Set([30]))
    await queue.settled(message.ack())
    await queue.runtime.advance(5 * minute)
    expect(queue.sqs.entries).toHaveLength(31)
    expect(queue.sqs.stored).toEqual([])
  })

  it('ends after twelve hours: the verdict of a handler that takes longer is rejected', async () => {
    await using queue = openVirtualQueue({ visibilityTimeout: hour, prefetch: 1 })
    queue.sqs.add(['endless'])
    const message = await queue.next()
    await queue.runtime.advance(10.5 * hour)
    expect(queue.sqs.entries.every(({ seconds }) => seconds === 3600)).toBe(true)
    await queue.runtime.advance(1.5 * hour)
    const seconds = queue.sqs.entries.map((entry) => entry.seconds)
    expect(seconds.filter((each) => each === 0)).toEqual([])
    // What is left of the twelve hours, and never more.
    expect(seconds.slice(-2)).toEqual([2399, 1199])
    await expect(queue.settled(message.ack())).rejects.toMatchObject({
      code: 'ACKORD_LEASE_LOST',
      message: expect.stringContaining('after its visibility timeout was over'),
    })
  })

  it('is tried again at the next third if SQS fails to extend it', async () => {
    await using queue = openVirtualQueue({ visibilityTimeout: 30_000 })
    queue.sqs.add(['slow'])
    const message = await queue.next()
    queue.sqs.refuse = () => internalError
    await queue.runtime.advance(10_000)
    queue.sqs.refuse = () => undefined
    await queue.runtime.advance(10_000)
    expect(queue.sqs.entries).toHaveLength(2)
    expect(await queue.settled(message.ack())).toBe(true)
  })

  it('was over if SQS refuses to extend it: the verdict of the handler is rejected, even if SQS confirms the deletion', async () => {
    await using queue = openVirtualQueue({ visibilityTimeout: 30_000 })
    queue.sqs.add(['lost'])
    const message = await queue.next()
    queue.sqs.refuse = ({ operation }) => (operation === 'changeMessageVisibilityBatch' ? expired : undefined)
    await queue.runtime.advance(10_000)
    await expect(queue.settled(message.ack())).rejects.toMatchObject({ code: 'ACKORD_LEASE_LOST' })
  })

  it('was over before a message was handed out: that delivery reaches no handler, and does not count', async () => {
    await using queue = openVirtualQueue({ visibilityTimeout: 30_000 })
    queue.sqs.add(['first', 'late'])
    const first = await queue.next()
    queue.sqs.refuse = ({ body }) => (body === 'late' ? expired : undefined)
    await queue.runtime.advance(10_000)
    queue.sqs.refuse = () => undefined
    await queue.settled(first.ack())
    const late = await queue.next()
    expect([bodyOf(late), late.deliveryCount]).toEqual(['late', 1])
    await queue.settled(late.ack())
    expect(queue.sqs.stored).toEqual([])
  })

  it('of a message that is delivered again to the same source does not reach a second handler', async () => {
    await using queue = openVirtualQueue({ visibilityTimeout: 30_000, waitTime: 1000 })
    queue.sqs.add(['slow'])
    const message = await queue.next()
    queue.sqs.expire('slow')
    queue.sqs.add(['other'])
    expect(bodyOf(await queue.next())).toBe('other')
    // The handle of the second delivery, with which SQS deletes the message.
    await queue.settled(message.ack())
    expect(queue.sqs.stored).toEqual(['other'])
  })
})

describe('a verdict during an extension', () => {
  it.each(['ack', 'nack'] as const)('waits for its answer, and no further extension is sent: %s', async (verdict) => {
    await using queue = openVirtualQueue({ visibilityTimeout: 30_000 })
    queue.sqs.add(['slow'])
    const message = await queue.next()
    const { answer, arrived } = holdRequests(queue)
    await queue.runtime.advance(10_000)
    const settling = verdict === 'ack' ? message.ack() : message.nack(new Error('not now'), { retryAfter: hour })
    await queue.runtime.advance(1000)
    expect(arrived()).toBe(1)
    answer()
    expect(await queue.settled(settling)).toBe(true)
    expect(queue.sqs.entries.map(({ operation, seconds }) => [operation, seconds])).toEqual([
      ['changeMessageVisibilityBatch', 30],
      verdict === 'ack' ? ['deleteMessageBatch', undefined] : ['changeMessageVisibilityBatch', 3600],
    ])
  })

  it('is not rejected because the message is deleted when its next extension is due', async () => {
    await using queue = openVirtualQueue({ visibilityTimeout: 3000 })
    queue.sqs.add(['fast'])
    const message = await queue.next()
    const answer = deferred()
    queue.sqs.before = () => answer.promise
    const acking = message.ack()
    await queue.runtime.advance(2000)
    answer.resolve()
    expect(await queue.settled(acking)).toBe(true)
    expect(queue.sqs.entries.map(({ operation }) => operation)).toEqual(['deleteMessageBatch'])
  })
})

describe('an extension that SQS has not answered', () => {
  it('is not sent a second time', async () => {
    await using queue = openVirtualQueue({ visibilityTimeout: 3000 })
    queue.sqs.add(['slow'])
    const message = await queue.next()
    const { answer, arrived } = holdRequests(queue)
    await queue.runtime.advance(2500)
    expect(arrived()).toBe(1)
    answer()
    await queue.settled(message.ack())
  })

  it('is waited for before the message is returned, so that it does not hide it again', async () => {
    await using queue = openVirtualQueue({ visibilityTimeout: 3000 })
    queue.sqs.add(['first', 'waiting'])
    const first = await queue.next()
    const { answer, arrived } = holdRequests(queue)
    await queue.runtime.advance(1000)
    const leaving = queue.leave()
    await queue.runtime.advance(1000)
    expect(arrived()).toBe(1)
    answer()
    await leaving
    const changes = queue.sqs.entries.filter(({ body }) => body === 'waiting')
    expect(changes.map(({ seconds }) => seconds)).toEqual([3, 0])
    await queue.settled(first.ack())
  })
})

describe('a nack', () => {
  it.each([
    [0, 0],
    [1, 1],
    [1000, 1],
    [1001, 2],
    [10 * minute, 600],
    [13 * hour, 43_199],
  ])('with a delay of %i ms hides the message for %i seconds', async (retryAfter, seconds) => {
    await using queue = openVirtualQueue()
    queue.sqs.add(['later'])
    const message = await queue.next()
    await queue.settled(message.nack(new Error('not now'), { retryAfter }))
    expect(queue.sqs.entries).toEqual([{ operation: 'changeMessageVisibilityBatch', body: 'later', seconds }])
  })

  it('of a message whose receipt handle has expired is rejected', async () => {
    await using queue = openVirtualQueue()
    queue.sqs.add(['late'])
    const message = await queue.next()
    queue.sqs.refuse = () => expired
    await expect(queue.settled(message.nack())).rejects.toMatchObject({
      code: 'ACKORD_LEASE_LOST',
      message: expect.stringContaining('its visibility timeout may be over'),
      cause: { message: 'ReceiptHandleIsInvalid: The receipt handle has expired.' },
    })
  })

  it('is rejected if SQS does not answer in time', async () => {
    await using queue = openVirtualQueue()
    queue.sqs.add(['late'])
    const message = await queue.next()
    queue.sqs.before = () => new Promise(() => {})
    await expect(queue.settled(message.nack())).rejects.toMatchObject({
      code: 'ACKORD_LEASE_LOST',
      message: expect.stringContaining('SQS did not answer'),
    })
  })
})

it('the acks of one turn of the event loop are sent in batches of up to ten', async () => {
  await using queue = openVirtualQueue()
  queue.sqs.add(Array.from({ length: 25 }, (_, index) => `m${index}`))
  const messages: Awaited<ReturnType<typeof queue.next>>[] = []
  while (messages.length < 25) messages.push(await queue.next())
  let batches = 0
  queue.sqs.before = async () => {
    batches += 1
  }
  const acks = await queue.settled(Promise.all(messages.map((message) => message.ack())))
  expect(acks).toEqual(Array(25).fill(true))
  expect(batches).toBe(3)
  expect(queue.sqs.stored).toEqual([])
})

it('many requests of many sources at a time cause no warning about listeners', async () => {
  const warnings: Error[] = []
  const onWarning = (warning: Error) => void warnings.push(warning)
  process.on('warning', onWarning)
  try {
    await Promise.all(
      Array.from({ length: 4 }, async () => {
        await using queue = openVirtualQueue()
        queue.sqs.add(Array.from({ length: 40 }, (_, index) => `m${index}`))
        const answer = deferred()
        queue.sqs.before = () => answer.promise
        const acks: Promise<boolean>[] = []
        while (acks.length < 40) acks.push((await queue.next()).ack())
        await queue.runtime.advance(0)
        answer.resolve()
        await queue.settled(Promise.all(acks))
      }),
    )
  } finally {
    process.off('warning', onWarning)
  }
  expect(warnings).toEqual([])
})

import { expect, it } from 'vitest'
import type { DeadLetterQueue, StoredLetter } from '../../../src/broker/dead-letters/dead-letter-queue.ts'
import { type ReplayOptions, replay } from '../../../src/broker/dead-letters/replay.ts'
import type { PublishResult } from '../../../src/broker/publisher.ts'
import { Message } from '../../../src/message/message.ts'

function letter(id: string, destination: string | undefined = 'orders', more: Record<string, string> = {}): StoredLetter {
  const attributes = { id, type: 'order.place', source: '/shop', deadletterdestination: destination, ...more }
  return { position: `at ${id}`, message: new Message(new Uint8Array(), attributes) }
}

type Answer = (id: string, destination: string) => PublishResult | Promise<PublishResult>

/** A queue in memory. `log` has the calls in their order. */
function queueOf(letters: readonly StoredLetter[], answer: Answer = () => ({ ok: true })) {
  const log: string[] = []
  const queue: DeadLetterQueue = {
    count: letters.length,
    undeletable: 0,
    publisher: {
      async publish(destination, messages) {
        log.push(`publish ${messages.map(({ id }) => id).join(' ')} to ${destination}`)
        return await Promise.all(messages.map(({ id = '' }) => answer(id, destination)))
      },
    },
    async *letters() {
      yield* letters
    },
    async remove(removed) {
      log.push(`remove ${removed.map(({ message }) => message.id).join(' ')}`)
    },
    async [Symbol.asyncDispose]() {},
  }
  return { queue, log }
}

function options(more: Partial<ReplayOptions> = {}) {
  const failures: string[] = []
  const onFailure: ReplayOptions['onFailure'] = ({ id }, reason) => failures.push(`${id}: ${reason}`)
  const signal = new AbortController().signal
  return { failures, given: { filter: {}, limit: Infinity, signal, onFailure, onProgress() {}, ...more } }
}

it('removes a letter after the broker has confirmed its message, and not before', async () => {
  let confirm: (result: PublishResult) => void = () => {}
  const confirmed = new Promise<PublishResult>((resolve) => {
    confirm = resolve
  })
  const { queue, log } = queueOf([letter('a1')], () => confirmed)
  const replaying = replay(queue, options().given)
  await new Promise((resolve) => setImmediate(resolve))
  expect(log).toEqual(['publish a1 to orders'])
  confirm({ ok: true })
  expect(await replaying).toEqual({ replayed: 1, failed: 0, skipped: 0 })
  expect(log).toEqual(['publish a1 to orders', 'remove a1'])
})

it('leaves letters whose messages are refused, and removes the others of the same batch', async () => {
  const refusal: PublishResult = { ok: false, error: new Error('too large'), permanent: true }
  const { queue, log } = queueOf([letter('a1'), letter('a2'), letter('a3')], (id) => (id === 'a2' ? refusal : { ok: true }))
  const { given, failures } = options()
  expect(await replay(queue, given)).toEqual({ replayed: 2, failed: 1, skipped: 0 })
  expect(log).toEqual(['publish a1 a2 a3 to orders', 'remove a1 a3'])
  expect(failures).toEqual(['a2: too large'])
})

it('does not try a destination again that is down, and goes on with the others', async () => {
  const down: PublishResult = { ok: false, error: new Error('no such queue'), scope: 'destination' }
  const letters = [letter('a1', 'down'), letter('b1'), letter('a2', 'down'), letter('b2')]
  const { queue, log } = queueOf(letters, (_, destination) => (destination === 'down' ? down : { ok: true }))
  const { given, failures } = options({ rate: 1000, limit: 4 })
  const { queue: slow, log: slowLog } = queueOf(letters, (_, destination) => (destination === 'down' ? down : { ok: true }))
  expect(await replay(queue, given)).toEqual({ replayed: 2, failed: 2, skipped: 0 })
  expect(log.filter((call) => call.includes('to down'))).toEqual(['publish a1 a2 to down'])
  expect(failures).toEqual(['a1: no such queue', 'a2: no such queue'])
  // One letter per batch.
  expect(await replay(slow, { ...given, rate: 10 })).toEqual({ replayed: 2, failed: 2, skipped: 0 })
  expect(slowLog.filter((call) => call.includes('to down'))).toEqual(['publish a1 to down'])
})

it('counts a publisher that throws as a failure of all letters of the call', async () => {
  const { queue, log } = queueOf([letter('a1'), letter('a2')], () => Promise.reject(new Error('connection lost')))
  const { given, failures } = options()
  expect(await replay(queue, given)).toEqual({ replayed: 0, failed: 2, skipped: 0 })
  expect(failures).toEqual(['a1: connection lost', 'a2: connection lost'])
  expect(log.filter((call) => call.startsWith('remove a'))).toEqual([])
})

it('skips letters that are incomplete or say no destination, unless they are named or have one by --to', async () => {
  const letters = [
    letter('whole'),
    letter('lost', ''),
    letter('bytes', 'orders', { deadletterform: 'bytes' }),
    letter('dataless', 'orders', { deadletterform: 'nodata' }),
    { ...letter('unreadable'), problem: 'no JSON' },
  ]
  const all = queueOf(letters)
  expect(await replay(all.queue, options().given)).toEqual({ replayed: 1, failed: 0, skipped: 4 })
  const elsewhere = queueOf(letters)
  expect(await replay(elsewhere.queue, options({ to: 'elsewhere' }).given)).toEqual({ replayed: 4, failed: 0, skipped: 1 })
  expect(elsewhere.log[0]).toBe('publish whole lost bytes unreadable to elsewhere')
  const named = queueOf(letters)
  const filter = { ids: new Set(['bytes', 'dataless', 'lost', 'at whole']) }
  expect(await replay(named.queue, options({ filter }).given)).toEqual({ replayed: 1, failed: 0, skipped: 2 })
  expect(named.log).toEqual(['publish bytes to orders', 'remove bytes'])
})

it('publishes no faster than the rate, and stops after the limit', async () => {
  const letters = Array.from({ length: 30 }, (_, index) => letter(`a${index}`))
  const { queue, log } = queueOf(letters)
  const startedAt = performance.now()
  expect(await replay(queue, options({ rate: 100, limit: 25 }).given)).toEqual({ replayed: 25, failed: 0, skipped: 0 })
  // The first batch of ten is sent at once, the last one after twenty.
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(190)
  expect(log.filter((call) => call.startsWith('publish'))).toHaveLength(3)
})

it('publishes nothing more after an abort, and keeps the letters of the batch that was not sent', async () => {
  const stopping = new AbortController()
  const { queue, log } = queueOf([letter('a1'), letter('a2'), letter('a3')], (id) => {
    if (id === 'a1') stopping.abort(new Error('interrupted'))
    return { ok: true }
  })
  expect(await replay(queue, options({ rate: 10, signal: stopping.signal }).given)).toEqual({ replayed: 1, failed: 0, skipped: 0 })
  expect(log).toEqual(['publish a1 to orders', 'remove a1'])
})

import { expect, it } from 'vitest'
import { deadLetterPort } from '../../../src/broker/dead-letters/dead-letter-port.ts'
import type { DeadLetterQueue, StoredLetter } from '../../../src/broker/dead-letters/dead-letter-queue.ts'
import { Message } from '../../../src/message/message.ts'
import { silentLogger } from '../../../src/ports/observability.ts'
import { deferred } from '../../support/router-world.ts'
import { settlePromises, VirtualRuntime } from '../../support/virtual-runtime.ts'

const signal = new AbortController().signal
const limit = 100
const onProgress = () => {}
const replayRunning = { code: 'ACKORD_REPLAY_RUNNING' }
const busy = { code: 'ACKORD_DEAD_LETTERS_BUSY' }

function letter(position: string, id: string | undefined): StoredLetter {
  const attributes = { type: 'order.place', deadletterdestination: 'orders' }
  return { position, message: new Message(new Uint8Array(), id === undefined ? attributes : { ...attributes, id }) }
}

interface PortOptions {
  readonly letters?: readonly StoredLetter[]
  /** What the opening of the destination waits for. */
  readonly opening?: () => Promise<unknown>
  /** What a confirmation waits for. */
  readonly confirming?: () => Promise<unknown>
}

/** A port for letters in memory. `log` has the calls in their order. */
function openPort({ letters = [letter('1', 'a')], opening, confirming }: PortOptions = {}) {
  const stored = new Map(letters.map((each) => [each.position, each]))
  const log: string[] = []
  const runtime = new VirtualRuntime()
  const queue: DeadLetterQueue = {
    get count() {
      return stored.size
    },
    undeletable: 0,
    publisher: {
      async publish(destination, messages) {
        log.push(`publish ${messages.map(({ id }) => id).join(' ')} to ${destination}`)
        await confirming?.()
        return messages.map(() => ({ ok: true }))
      },
    },
    async *letters() {
      yield* [...stored.values()]
    },
    async remove(removed) {
      for (const { position } of removed) stored.delete(position)
    },
    async [Symbol.asyncDispose]() {
      log.push('close')
    },
  }
  const open = async () => {
    log.push('open')
    await opening?.()
    return queue
  }
  return { port: deadLetterPort({ open, logger: silentLogger, runtime }), stored, log, runtime }
}

it('replays the letters that the preview has counted, and none whose position looks like their id', async () => {
  const { port, stored, log } = openPort({ letters: [letter('16', '17'), letter('17', 'other'), letter('18', undefined)] })
  expect(await port.preview(['17'], { limit, signal })).toMatchObject({ count: 1 })
  expect(await port.find('17', { limit, signal })).toMatchObject([{ position: '16' }])
  expect(await port.replay(['17'], { signal, onProgress })).toBe(1)
  expect(log.filter((call) => call.startsWith('publish'))).toEqual(['publish 17 to orders'])
  expect([...stored.keys()]).toEqual(['17', '18'])
  // A message without an id is named by its position.
  expect(await port.find('18', { limit, signal })).toMatchObject([{ position: '18' }])
})

it('opens the destination once for all who ask for the same list at the same time', async () => {
  const opened = deferred()
  const { port, log } = openPort({ opening: () => opened.promise })
  const leaving = new AbortController()
  const left = port.list({ limit, signal: leaving.signal })
  const others = [port.list({ limit, signal }), port.list({ limit, signal })]
  await settlePromises()
  leaving.abort(new Error('the browser has disconnected'))
  await expect(left).rejects.toThrow('the browser has disconnected')
  opened.resolve()
  const lists = await Promise.all(others)
  expect(lists.map(({ letters }) => letters.length)).toEqual([1, 1])
  expect(log).toEqual(['open', 'close'])
  expect((await port.list({ limit, signal })).count).toBe(1)
  expect(log).toEqual(['open', 'close', 'open', 'close'])
})

it('does not open the destination for a caller whose signal was aborted', async () => {
  const opened = deferred()
  const { port, log } = openPort({ opening: () => opened.promise })
  const leaving = new AbortController()
  const first = port.find('a', { limit, signal })
  const waiting = [port.list({ limit, signal: leaving.signal }), port.find('a', { limit, signal: leaving.signal })]
  const outcomes = Promise.allSettled(waiting)
  await settlePromises()
  leaving.abort(new Error('left'))
  expect(await outcomes).toMatchObject([{ status: 'rejected' }, { status: 'rejected' }])
  opened.resolve()
  expect(await first).toHaveLength(1)
  expect(await port.replay(['a'], { signal: leaving.signal, onProgress })).toBe(0)
  await expect(port.preview(undefined, { limit, signal: leaving.signal })).rejects.toThrow('left')
  expect(log).toEqual(['open', 'close'])
})

it('stops waiting for a destination that does not open, and closes it if it opens later', async () => {
  const hanging = deferred()
  const openings: Promise<unknown>[] = [hanging.promise]
  const { port, log, runtime } = openPort({ opening: async () => await openings.shift() })
  const failing = expect(port.list({ limit, signal })).rejects.toMatchObject({
    code: 'ACKORD_SOURCE_FAILED',
    message: expect.stringContaining('30 s'),
  })
  const next = port.find('a', { limit, signal })
  await runtime.advance(30_000)
  await failing
  expect(await next).toHaveLength(1)
  expect(log).toEqual(['open', 'open', 'close'])
  hanging.resolve()
  await settlePromises()
  expect(log).toEqual(['open', 'open', 'close', 'close'])
  expect(runtime.timers).toBe(0)
})

it('answers at once that a replay is running, until it has ended', async () => {
  const confirmed = deferred()
  const { port } = openPort({ letters: [letter('1', 'a'), letter('2', 'b')], confirming: () => confirmed.promise })
  const replaying = port.replay(['a'], { signal, onProgress })
  await settlePromises()
  await expect(port.list({ limit, signal })).rejects.toMatchObject(replayRunning)
  await expect(port.find('b', { limit, signal })).rejects.toMatchObject(replayRunning)
  await expect(port.preview(undefined, { limit, signal })).rejects.toMatchObject(replayRunning)
  await expect(port.replay(undefined, { signal, onProgress })).rejects.toMatchObject(replayRunning)
  confirmed.resolve()
  expect(await replaying).toBe(1)
  expect((await port.list({ limit, signal })).letters).toMatchObject([{ position: '2' }])
})

it('lets a few requests wait, and refuses more, until some have been answered or have left', async () => {
  const opened = deferred()
  const { port, log } = openPort({ opening: () => opened.promise })
  const leaving = new AbortController()
  const waiting = Array.from({ length: 4 }, () => port.find('a', { limit, signal }))
  const left = port.find('a', { limit, signal: leaving.signal })
  await expect(port.find('a', { limit, signal })).rejects.toMatchObject(busy)
  leaving.abort(new Error('left'))
  await expect(left).rejects.toThrow('left')
  waiting.push(port.find('a', { limit, signal }))
  opened.resolve()
  expect(await Promise.all(waiting)).toHaveLength(5)
  expect(log).toHaveLength(10)
  expect(await port.find('a', { limit, signal })).toHaveLength(1)
})

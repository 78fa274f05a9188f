import { getEventListeners } from 'node:events'
import { expect, it } from 'vitest'
import { type Context, currentContext, rootContext } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { deadlineMiddleware } from '../../src/middleware/deadline.ts'
import type { Process } from '../../src/middleware/middleware.ts'
import { sleep } from '../../src/ports/runtime.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

const outputs = [new Message('output')]

/** A message that expires, and a parent context that ends, in this many milliseconds. */
function world({ expiry, parent }: { readonly expiry?: number; readonly parent?: number } = {}) {
  const runtime = new VirtualRuntime()
  const { signal } = new AbortController()
  const at = (offset: number) => runtime.now() + offset
  const message = new Message('data', {
    type: 'order.placed',
    id: '1',
    expirytime: expiry === undefined ? undefined : new Date(at(expiry)),
  })
  const root = rootContext({ signal, deadline: parent === undefined ? undefined : at(parent) })
  const run = (next: Process, context: Context = message.context(root)) => deadlineMiddleware({ runtime })(next)(message, context)
  const expectNoLeak = () => {
    expect(runtime.timers).toBe(0)
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  }
  return { runtime, message, root, run, expectNoLeak }
}

it.each([0, -1, -1000])('rejects a message that expired %i ms from now, without calling next', async (expiry) => {
  const { run, expectNoLeak } = world({ expiry })
  let called = false
  const next: Process = async () => {
    called = true
    return outputs
  }
  await expect(run(next)).rejects.toMatchObject({
    code: 'ACKORD_MESSAGE_EXPIRED',
    retryable: false,
    message: "The expiry time of a message of type 'order.placed' (id '1') has passed.",
  })
  expect(called).toBe(false)
  expectNoLeak()
})

it('passes through without timers when there is no limit', async () => {
  const { run, runtime, message, root } = world()
  const context = message.context(root)
  const seen: unknown[] = []
  const result = await run(async (_message, given) => {
    seen.push(given, runtime.timers)
    return outputs
  }, context)
  expect(result).toBe(outputs)
  expect(seen[0]).toBe(context)
  expect(seen[1]).toBe(0)
})

it('passes through when the expiry time is not an instant', async () => {
  const runtime = new VirtualRuntime()
  const message = new Message('data', { expirytime: 'tomorrow' })
  const run = deadlineMiddleware({ runtime })(async () => outputs)
  expect(await run(message, message.context(rootContext()))).toBe(outputs)
})

it('passes on the outputs of a message handled before the expiry', async () => {
  const { run, expectNoLeak } = world({ expiry: 100 })
  expect(await run(async () => outputs)).toBe(outputs)
  expectNoLeak()
})

it('parses an expiry time as a string, and of a message whose context does not have it', async () => {
  const runtime = new VirtualRuntime()
  const message = new Message('data', { expirytime: new Date(runtime.now() - 1).toISOString() })
  const run = deadlineMiddleware({ runtime })(async () => outputs)
  await expect(run(message, rootContext())).rejects.toMatchObject({ code: 'ACKORD_MESSAGE_EXPIRED' })
})

it('aborts the signal at the expiry and rejects with that reason', async () => {
  const { run, runtime, expectNoLeak } = world({ expiry: 100, parent: 5000 })
  const failure = run(async (_message, { signal }) => {
    await sleep(runtime, 1000, { signal })
    return outputs
  }).catch((error: unknown) => error)
  await runtime.advance(100)
  expect(await failure).toMatchObject({ code: 'ACKORD_MESSAGE_EXPIRED', retryable: false })
  expect(await failure).not.toHaveProperty('cause')
  expectNoLeak()
})

it('waits for the handler to end and reports its failure as expired, with the failure as cause', async () => {
  const { run, runtime, expectNoLeak } = world({ expiry: 100 })
  const cause = new Error('query cancelled')
  const rejection = expect(
    run(async () => {
      await sleep(runtime, 500)
      throw cause
    }),
  ).rejects.toMatchObject({ code: 'ACKORD_MESSAGE_EXPIRED', retryable: false, cause })
  await runtime.advance(500)
  await rejection
  expectNoLeak()
})

it('treats a success after the expiry as one', async () => {
  const { run, runtime } = world({ expiry: 100 })
  const result = run(async () => {
    await sleep(runtime, 500)
    return outputs
  })
  await runtime.advance(500)
  expect(await result).toBe(outputs)
})

it('passes on a failure before the expiry unchanged', async () => {
  const { run, expectNoLeak } = world({ expiry: 100 })
  const error = new Error('broken')
  await expect(run(() => Promise.reject(error))).rejects.toBe(error)
  expectNoLeak()
})

it('keeps an earlier deadline of the parent, and reports it as a time-out: the message may still succeed', async () => {
  const { run, runtime, expectNoLeak } = world({ expiry: 5000, parent: 100 })
  const rejection = expect(
    run(async (_message, { signal }) => {
      await sleep(runtime, 1000, { signal })
      return outputs
    }),
  ).rejects.toMatchObject({ code: 'ACKORD_PROCESS_TIMEOUT', retryable: true })
  await runtime.advance(100)
  await rejection
  expectNoLeak()
})

it('does not begin after the deadline of the parent', async () => {
  const { run, expectNoLeak } = world({ parent: -1 })
  await expect(run(async () => outputs)).rejects.toMatchObject({ code: 'ACKORD_PROCESS_TIMEOUT' })
  expectNoLeak()
})

it('reports an expired message as expired, even if an earlier deadline has passed too', async () => {
  const { run } = world({ expiry: -1, parent: -1000 })
  await expect(run(async () => outputs)).rejects.toMatchObject({ code: 'ACKORD_MESSAGE_EXPIRED', retryable: false })
})

it.each([[{ expiry: 100, parent: 5000 }], [{ expiry: 5000, parent: 100 }], [{ expiry: 100 }], [{ parent: 100 }]])(
  'shows next the earlier limit of %j, in the ambient context too',
  async (limits) => {
    const { run, runtime } = world(limits)
    const seen: unknown[] = []
    await run(async (_message, context) => {
      seen.push(context.deadline, currentContext() === context)
      return outputs
    })
    expect(seen).toEqual([runtime.now() + 100, true])
  },
)

import { getEventListeners } from 'node:events'
import { expect, it } from 'vitest'
import { RejectError } from '../../src/errors.ts'
import { type Context, currentContext, rootContext, withDeadline } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import type { Process } from '../../src/middleware/middleware.ts'
import { timeoutMiddleware } from '../../src/middleware/timeout.ts'
import { sleep } from '../../src/ports/runtime.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

const message = new Message('data', { type: 'order.placed', id: '1' })
const outputs = [new Message('output')]

function world() {
  const runtime = new VirtualRuntime()
  const controller = new AbortController()
  const context = rootContext({ signal: controller.signal })
  const run = (next: Process, given: Context = context) => timeoutMiddleware(100, { runtime })(next)(message, given)
  const expectNoLeak = () => {
    expect(runtime.timers).toBe(0)
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0)
  }
  return { runtime, controller, context, run, expectNoLeak }
}

it('passes on the outputs that next produced in time', async () => {
  const { run, expectNoLeak } = world()
  expect(await run(async () => outputs)).toBe(outputs)
  expectNoLeak()
})

it('aborts the signal when the time is over and rejects with that reason', async () => {
  const { run, runtime, expectNoLeak } = world()
  let reason: unknown
  const failure = run(async (_message, context) => {
    await sleep(runtime, 1000, { signal: context.signal }).catch((error: unknown) => {
      reason = error
      throw error
    })
    return outputs
  }).catch((error: unknown) => error)
  await runtime.advance(100)
  const error = await failure
  expect(error).toBe(reason)
  expect(error).toMatchObject({
    code: 'ACKORD_PROCESS_TIMEOUT',
    retryable: true,
    message: "Handling a message of type 'order.placed' (id '1') took longer than 100 ms.",
  })
  expectNoLeak()
})

it('waits for a handler that ignores the signal, and treats its success as one', async () => {
  const { run, runtime, expectNoLeak } = world()
  let ended = false
  const result = run(async () => {
    await sleep(runtime, 500)
    return outputs
  })
  void result.then(() => {
    ended = true
  })
  await runtime.advance(499)
  expect(ended).toBe(false)
  await runtime.advance(1)
  expect(await result).toBe(outputs)
  expectNoLeak()
})

it('reports a failure after the abort as a time-out with that failure as its cause', async () => {
  const { run, runtime } = world()
  const cause = new Error('query cancelled')
  const rejection = expect(
    run(async () => {
      await sleep(runtime, 500)
      throw cause
    }),
  ).rejects.toMatchObject({ code: 'ACKORD_PROCESS_TIMEOUT', cause, retryable: true })
  await runtime.advance(500)
  await rejection
})

it('does not make a message retryable that is at fault itself', async () => {
  const { run, runtime } = world()
  const rejection = expect(
    run(async () => {
      await sleep(runtime, 500)
      throw new RejectError('bad order')
    }),
  ).rejects.toMatchObject({ code: 'ACKORD_PROCESS_TIMEOUT', retryable: false })
  await runtime.advance(500)
  await rejection
})

it('passes on a failure in time unchanged', async () => {
  const { run, expectNoLeak } = world()
  const error = new Error('broken')
  await expect(run(() => Promise.reject(error))).rejects.toBe(error)
  expectNoLeak()
})

it('leaves no timer behind when next throws synchronously', async () => {
  const { run, expectNoLeak } = world()
  const error = new Error('broken')
  await expect(
    run(() => {
      throw error
    }),
  ).rejects.toBe(error)
  expectNoLeak()
})

it('passes on an abort of the parent, whose reason applies even if the time runs out meanwhile', async () => {
  const { run, runtime, controller, expectNoLeak } = world()
  const stopping = new Error('stopping')
  const late = new Error('late')
  let seen: unknown
  const rejection = expect(
    run(async (_message, { signal }) => {
      await sleep(runtime, 500)
      seen = signal.reason
      throw late
    }),
  ).rejects.toBe(late)
  await runtime.advance(50)
  controller.abort(stopping)
  await runtime.advance(450)
  await rejection
  expect(seen).toBe(stopping)
  expectNoLeak()
})

it('passes next an aborted signal if the parent was aborted', async () => {
  const { run, controller, expectNoLeak } = world()
  controller.abort(new Error('stopping'))
  await expect(run(async (_message, { signal }) => signal.throwIfAborted() ?? outputs)).rejects.toThrow('stopping')
  expectNoLeak()
})

it('moves the deadline forward, never back, and makes its context the ambient one', async () => {
  const { run, runtime, context } = world()
  const seen: unknown[] = []
  const look: Process = async (_message, given) => {
    seen.push(given.deadline, currentContext() === given)
    return []
  }
  await run(look)
  await run(look, withDeadline(context, runtime.now() + 10))
  await run(look, withDeadline(context, runtime.now() + 1000))
  expect(seen).toEqual([runtime.now() + 100, true, runtime.now() + 10, true, runtime.now() + 100, true])
})

it('reports the time-out of the outer of two as the outer one', async () => {
  const runtime = new VirtualRuntime()
  const inner = timeoutMiddleware(1000, { runtime })
  const run = timeoutMiddleware(100, { runtime })(
    inner(async (_message, { signal }) => {
      await sleep(runtime, 5000, { signal })
      return outputs
    }),
  )
  const rejection = expect(run(message, rootContext())).rejects.toThrow('longer than 100 ms')
  await runtime.advance(100)
  await rejection
  expect(runtime.timers).toBe(0)
})

it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY])('rejects a duration of %s', (duration) => {
  expect(() => timeoutMiddleware(duration)).toThrow(/^duration must be/)
})

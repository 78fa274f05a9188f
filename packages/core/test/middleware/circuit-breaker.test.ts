import { expect, it } from 'vitest'
import { AckordError, RejectError } from '../../src/errors.ts'
import { rootContext } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { type CircuitBreakerOptions, circuitBreakerMiddleware } from '../../src/middleware/circuit-breaker.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

const message = new Message('data', { type: 'order.placed', id: '1' })
const down = new Error('down')

function world(options: CircuitBreakerOptions = {}) {
  const runtime = new VirtualRuntime()
  let calls = 0
  let answer: () => Promise<readonly Message[]> = async () => []
  const middleware = circuitBreakerMiddleware({ failures: 2, openFor: 1000, runtime, ...options })
  const run = middleware(async () => {
    calls += 1
    return await answer()
  })
  return {
    runtime,
    send: async (next = answer, context = rootContext()) => {
      answer = next
      return await run(message, context).then(
        () => 'handled',
        (error: unknown) => error,
      )
    },
    calls: () => calls,
  }
}

const fails = (error: Error) => () => Promise.reject(error)

it('passes failures on unchanged while it is closed', async () => {
  const { send } = world()
  expect(await send(fails(down))).toBe(down)
})

it('does not call next once it is open, and says when to retry', async () => {
  const { send, runtime, calls } = world()
  await send(fails(down))
  await send(fails(down))
  await runtime.advance(400)
  expect(await send()).toMatchObject({
    name: 'CircuitOpenError',
    code: 'ACKORD_CIRCUIT_OPEN',
    retryable: true,
    retryAfter: 600,
    message: "Did not handle a message of type 'order.placed' (id '1'): the circuit is open. Try again in 600 ms.",
  })
  expect(calls()).toBe(2)
})

it('closes again after a trial that succeeds', async () => {
  const { send, runtime } = world()
  await send(fails(down))
  await send(fails(down))
  await runtime.advance(1000)
  expect(await send(async () => [])).toBe('handled')
  expect(await send()).toBe('handled')
})

it('opens again after a trial that fails', async () => {
  const { send, runtime, calls } = world()
  await send(fails(down))
  await send(fails(down))
  await runtime.advance(1000)
  expect(await send(fails(down))).toBe(down)
  expect(await send()).toMatchObject({ code: 'ACKORD_CIRCUIT_OPEN', retryAfter: 1000 })
  expect(calls()).toBe(3)
})

it('does not count failures that are the fault of the message', async () => {
  const { send } = world()
  const bad = new RejectError('bad order')
  for (let round = 0; round < 5; round += 1) expect(await send(fails(bad))).toBe(bad)
  expect(await send(async () => [])).toBe('handled')
})

it('counts errors of Ackord that are not', async () => {
  const { send } = world()
  const error = new AckordError('ACKORD_PROCESS_TIMEOUT', 'slow')
  await send(fails(error))
  await send(fails(error))
  expect(await send()).toMatchObject({ code: 'ACKORD_CIRCUIT_OPEN' })
})

it('does not stay half open because a trial was the fault of its message', async () => {
  const { send, runtime } = world()
  await send(fails(down))
  await send(fails(down))
  await runtime.advance(1000)
  await send(fails(new RejectError('bad order')))
  expect(await send(async () => [])).toBe('handled')
})

it('does not count calls that a shutdown interrupted', async () => {
  const { send } = world({ failures: 1 })
  const signal = AbortSignal.abort(new AckordError('ACKORD_SHUTDOWN', 'stopping'))
  expect(await send(fails(down), rootContext({ signal }))).toBe(down)
  expect(await send(async () => [])).toBe('handled')
})

it('lets only the trial through while it is in flight', async () => {
  const { send, runtime, calls } = world()
  await send(fails(down))
  await send(fails(down))
  await runtime.advance(1000)
  let finish = (_outputs: readonly Message[]) => {}
  const trial = send(
    () =>
      new Promise((resolve) => {
        finish = resolve
      }),
  )
  expect(await send()).toMatchObject({ code: 'ACKORD_CIRCUIT_OPEN', retryAfter: 1000 })
  expect(calls()).toBe(3)
  finish([])
  expect(await trial).toBe('handled')
})

it('rejects invalid options', () => {
  expect(() => circuitBreakerMiddleware({ failures: 0 })).toThrow(/^failures must be/)
})

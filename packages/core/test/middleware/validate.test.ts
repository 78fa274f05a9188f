import { expect, it } from 'vitest'
import type { Attributes } from '../../src/message/attributes.ts'
import { rootContext } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { validateMiddleware } from '../../src/middleware/validate.ts'

const complete: Attributes = { id: '1', type: 'order.placed', source: '/orders', specversion: '1.0' }

it('passes on messages with all required attributes', async () => {
  const outputs = [new Message('output', complete)]
  const run = validateMiddleware()(async () => outputs)
  expect(await run(new Message('data', complete), rootContext())).toBe(outputs)
})

it.each([
  [{}, "'id', 'type', 'source', 'specversion'"],
  [{ ...complete, source: undefined }, "'source'"],
  [{ ...complete, id: '', specversion: undefined }, "'id', 'specversion'"],
])('rejects an input, naming all missing attributes, before it is handled: %j', async (attributes, listed) => {
  let called = false
  const run = validateMiddleware()(async () => {
    called = true
    return []
  })
  const failure = await run(new Message('data', attributes), rootContext()).catch((error: unknown) => error)
  expect(failure).toMatchObject({ code: 'ACKORD_MISSING_ATTRIBUTE', retryable: false })
  expect(String(failure)).toMatch(new RegExp(`: ${listed}\\.$`))
  expect(called).toBe(false)
})

it('rejects an output as a fault of the handler, which may be fixed', async () => {
  const run = validateMiddleware()(async () => [new Message('output', complete), new Message('output', { type: 'order.placed' })])
  await expect(run(new Message('data', complete), rootContext())).rejects.toMatchObject({
    code: 'ACKORD_MISSING_ATTRIBUTE',
    retryable: true,
    message: expect.stringContaining("an output (a message of type 'order.placed'): 'id', 'source', 'specversion'"),
  })
})

it('does not validate outputs if configured so, and may then be placed anywhere', async () => {
  const middleware = validateMiddleware({ outputs: false })
  const outputs = [new Message('output')]
  expect(await middleware(async () => outputs)(new Message('data', complete), rootContext())).toBe(outputs)
  expect(middleware.role).toBeUndefined()
  expect(validateMiddleware().role).toBe('outputs')
})

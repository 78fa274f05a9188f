import { expect, it } from 'vitest'
import type { Attributes } from '../../src/message/attributes.ts'
import { rootContext } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { validateMiddleware } from '../../src/middleware/validate.ts'

const complete: Attributes = { id: '1', type: 'order.placed', source: '/orders', specversion: '1.0' }

it('passes messages on that have what is required', async () => {
  const outputs = [new Message('output', complete)]
  const run = validateMiddleware()(async () => outputs)
  expect(await run(new Message('data', complete), rootContext())).toBe(outputs)
})

it.each([
  [{}, "'id', 'type', 'source', 'specversion'"],
  [{ ...complete, source: undefined }, "'source'"],
  [{ ...complete, id: '', specversion: undefined }, "'id', 'specversion'"],
])('refuses an input, naming all that it lacks, before it is handled: %j', async (attributes, listed) => {
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

it('refuses an output as a fault of the handler, which may be mended', async () => {
  const run = validateMiddleware()(async () => [new Message('output', complete), new Message('output', { type: 'order.placed' })])
  await expect(run(new Message('data', complete), rootContext())).rejects.toMatchObject({
    code: 'ACKORD_MISSING_ATTRIBUTE',
    retryable: true,
    message: expect.stringContaining("an output (a message of type 'order.placed'): 'id', 'source', 'specversion'"),
  })
})

it('leaves outputs alone when told so, and may then stand anywhere', async () => {
  const middleware = validateMiddleware({ outputs: false })
  const outputs = [new Message('output')]
  expect(await middleware(async () => outputs)(new Message('data', complete), rootContext())).toBe(outputs)
  expect(middleware.role).toBeUndefined()
  expect(validateMiddleware().role).toBe('outputs')
})

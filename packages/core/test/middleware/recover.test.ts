import { expect, it } from 'vitest'
import { rootContext } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { recoverMiddleware } from '../../src/middleware/recover.ts'

const message = new Message('data', { type: 'order.placed' })

it('turns a synchronous throw into a rejection with the same error', async () => {
  const error = new TypeError('broken')
  const run = recoverMiddleware()(() => {
    throw error
  })
  await expect(run(message, rootContext())).rejects.toBe(error)
})

it('passes a rejection with an error on unchanged', async () => {
  const error = new Error('broken')
  await expect(recoverMiddleware()(() => Promise.reject(error))(message, rootContext())).rejects.toBe(error)
})

it.each([['a text'], [undefined], [null], [{ secret: 'payload' }], [0]])(
  'wraps a thrown %j in an error that does not show it',
  async (thrown) => {
    const run = recoverMiddleware()(async () => {
      throw thrown
    })
    const error = await run(message, rootContext()).catch((caught: unknown) => caught)
    expect(error).toBeInstanceOf(Error)
    expect(error).toMatchObject({ code: 'ACKORD_NOT_AN_ERROR', cause: thrown })
    expect(String(error)).not.toContain('payload')
  },
)

it('passes message, context and outputs through unchanged', async () => {
  const context = rootContext()
  const outputs = [new Message(1)]
  const seen: unknown[] = []
  const run = recoverMiddleware()(async (...given) => {
    seen.push(...given)
    return outputs
  })
  expect(await run(message, context)).toBe(outputs)
  expect(seen[0]).toBe(message)
  expect(seen[1]).toBe(context)
})

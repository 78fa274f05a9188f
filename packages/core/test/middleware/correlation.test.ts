import { expect, it } from 'vitest'
import { attributesKey, type Context, currentContext, messageKey, rootContext } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { correlationMiddleware } from '../../src/middleware/correlation.ts'
import { trackedMessage } from '../support/tracked-message.ts'

const input = new Message('data', { id: '1', correlationid: 'c-1' })
const plain = new Message('data', { id: '1' })

async function outputsOf(middleware: ReturnType<typeof correlationMiddleware>, message: Message, outputs: Message[]) {
  return await middleware(async () => outputs)(message, message.context(rootContext()))
}

it('copies the correlation id of the input to outputs and changes nothing else', async () => {
  const output = new Message({ total: 1 }, { id: '2', type: 'order.placed' })
  const [result] = await outputsOf(correlationMiddleware(), input, [output])
  expect(result?.attributes).toEqual({ id: '2', type: 'order.placed', correlationid: 'c-1' })
  expect(result?.data).toBe(output.data)
  expect(output.correlationId).toBeUndefined()
})

it('keeps the correlation id of an output', async () => {
  const output = new Message('data', { correlationid: 'own' })
  expect(await outputsOf(correlationMiddleware(), input, [output])).toEqual([output])
})

it.each([undefined, ''])('creates none for an input with %j', async (correlationid) => {
  const output = new Message('data', { id: '2' })
  const [result] = await outputsOf(correlationMiddleware(), new Message('data', { correlationid }), [output])
  expect(result).toBe(output)
})

it('passes the same message and context on when there is nothing to add', async () => {
  for (const message of [input, plain]) {
    const context = message.context(rootContext())
    const seen: unknown[] = []
    const run = correlationMiddleware()(async (...given) => {
      seen.push(...given)
      return []
    })
    await run(message, context)
    expect(seen[0]).toBe(message)
    expect(seen[1]).toBe(context)
  }
})

it('creates one if configured, visible to the handler and on its outputs', async () => {
  const { message, calls } = trackedMessage('data', { id: '1' })
  const seen: unknown[] = []
  const run = correlationMiddleware({ start: (given) => `from-${given.id}` })(async (given: Message, context: Context) => {
    seen.push(given.correlationId, context.get(attributesKey)?.correlationid, context.get(messageKey) === given)
    seen.push(currentContext() === context)
    await given.ack()
    return [new Message('output')]
  })
  const [output] = await run(message, message.context(rootContext()))
  expect(seen).toEqual(['from-1', 'from-1', true, true])
  expect(output?.correlationId).toBe('from-1')
  expect(message.correlationId).toBeUndefined()
  expect(calls).toEqual([{ verdict: 'ack' }])
})

it('does not create one for an input that has it, nor when start returns none', async () => {
  const start = correlationMiddleware({ start: () => 'new' })
  expect((await outputsOf(start, input, [new Message('output')]))[0]?.correlationId).toBe('c-1')
  const none = correlationMiddleware({ start: () => undefined })
  expect((await outputsOf(none, plain, [new Message('output')]))[0]?.correlationId).toBeUndefined()
})

it('has the role of a middleware that changes outputs', () => {
  expect(correlationMiddleware().role).toBe('outputs')
})

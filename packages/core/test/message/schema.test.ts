import { type } from 'arktype'
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type AckordError, isAckordError } from '../../src/errors.ts'
import { commandHandler } from '../../src/handler/typed-handler.ts'
import { rootContext } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import type { StandardSchema } from '../../src/message/schema.ts'

interface Schemas {
  /** `{ customer: { email }, quantity }`, quantity at least 5. */
  readonly plain: StandardSchema
  /** The same; `quantity` arrives as a string. */
  readonly transforming: StandardSchema
  /** A string other than 'taken', which is validated asynchronously. */
  readonly asynchronous: StandardSchema
  readonly throwing: StandardSchema
}

const libraries: Record<string, Schemas> = {
  zod: {
    plain: z.object({ customer: z.object({ email: z.email() }), quantity: z.number().min(5) }),
    transforming: z.object({ quantity: z.string().transform(Number) }),
    asynchronous: z.string().refine(async (text) => text !== 'taken', 'is taken'),
    throwing: z.string().transform(() => {
      throw new TypeError('broken schema')
    }),
  },
  valibot: {
    plain: v.object({
      customer: v.object({ email: v.pipe(v.string(), v.email()) }),
      quantity: v.pipe(v.number(), v.minValue(5)),
    }),
    transforming: v.object({ quantity: v.pipe(v.string(), v.transform(Number)) }),
    asynchronous: v.pipeAsync(
      v.string(),
      v.checkAsync(async (text) => text !== 'taken', 'is taken'),
    ),
    throwing: v.pipe(
      v.string(),
      v.transform(() => {
        throw new TypeError('broken schema')
      }),
    ),
  },
  arktype: {
    plain: type({ customer: { email: 'string.email' }, quantity: 'number >= 5' }),
    transforming: type({ quantity: ['string', '=>', Number] }),
    // arktype itself has no asynchronous types.
    asynchronous: later(type('string').narrow((text, ctx) => text !== 'taken' || ctx.reject('free, it is taken'))),
    throwing: type([
      'string',
      '=>',
      () => {
        throw new TypeError('broken schema')
      },
    ]),
  },
}

const context = rootContext()

function later(schema: StandardSchema): StandardSchema {
  return answering(async (value) => {
    await Promise.resolve()
    return await schema['~standard'].validate(value)
  })
}

function answering(validate: StandardSchema['~standard']['validate']): StandardSchema {
  return { '~standard': { version: 1, vendor: 'test', validate } }
}

async function receive(schema: StandardSchema, data: unknown): Promise<unknown> {
  const received: unknown[] = []
  const handler = commandHandler({ type: 'order.place', schema, source: '/orders' }, (value) => void received.push(value))
  await handler.handle(new Message(data, { type: 'order.place', id: 'c-1' }), context)
  expect(received).toHaveLength(1)
  return received[0]
}

async function refusal(schema: StandardSchema, data: unknown): Promise<AckordError> {
  const error: unknown = await receive(schema, data).then(
    (received) => received,
    (thrown: unknown) => thrown,
  )
  if (!isAckordError(error, 'ACKORD_VALIDATION_FAILED')) throw new Error('expected a refusal', { cause: error })
  expect(error.retryable).toBe(false)
  return error
}

describe.each(Object.entries(libraries))('a schema made with %s', (_, schemas) => {
  it('accepts valid data', async () => {
    const data = { customer: { email: 'ada@example.org' }, quantity: 5 }
    expect(await receive(schemas.plain, data)).toEqual(data)
  })

  it('reports message and paths of problems, never the payload', async () => {
    const error = await refusal(schemas.plain, { customer: { email: 'not-a-mail' }, quantity: 3.25 })
    expect(error.message).toContain("The data of a message of type 'order.place' (id 'c-1') is not valid: ")
    expect(error.message).toContain('customer.email')
    expect(error.message).toContain('quantity')
    expect(error.message).toMatch(/5/)
    expect(error.message).not.toContain('not-a-mail')
    expect(error.message).not.toContain('3.25')
  })

  it('reports what is missing', async () => {
    const error = await refusal(schemas.plain, { customer: { email: 'ada@example.org' } })
    expect(error.message).toContain('quantity')
    expect(error.message).not.toContain('email')
  })

  it.each([undefined, null, 'secret', ['secret'], new Uint8Array(3)])('rejects %s as a whole', async (data) => {
    const error = await refusal(schemas.plain, data)
    expect(error.message).not.toMatch(/is not valid: \d/) // there is no path
    expect(error.message).not.toContain('secret')
  })

  it('does not show a rejected boolean or a value of the wrong type', async () => {
    const error = await refusal(schemas.plain, { customer: { email: false }, quantity: 'secret' })
    expect(error.message).not.toMatch(/false|secret/)
  })

  it('passes its output on', async () => {
    expect(await receive(schemas.transforming, { quantity: '7' })).toEqual({ quantity: 7 })
  })

  it('may throw, which rejects the message and keeps the cause', async () => {
    const error = await refusal(schemas.throwing, 'secret')
    expect(error.cause).toMatchObject({ message: 'broken schema' })
    expect(error.message).toBe("The schema for the data of a message of type 'order.place' (id 'c-1') failed.")
  })

  it('may be asynchronous', async () => {
    const schema = schemas.asynchronous
    expect(await receive(schema, 'free')).toBe('free')
    expect((await refusal(schema, 'taken')).message).toContain('is taken')
  })
})

describe('any Standard Schema', () => {
  it('may reject instead of throwing', async () => {
    const cause = new Error('database is away')
    expect(
      (
        await refusal(
          answering(() => Promise.reject(cause)),
          {},
        )
      ).cause,
    ).toBe(cause)
  })

  it('that returns nothing rejects the message', async () => {
    expect(
      (
        await refusal(
          answering(() => undefined as never),
          {},
        )
      ).cause,
    ).toBeInstanceOf(TypeError)
  })

  it('may report paths as keys, objects and symbols, or none', async () => {
    const issues = [
      { message: 'first', path: ['a', 0, { key: 'b' }] },
      { message: 'second', path: [Symbol('s')] },
      { message: 'third' },
      { message: 'fourth', path: [] },
    ]
    const error = await refusal(
      answering(() => ({ issues })),
      {},
    )
    expect(error.message).toContain('is not valid: a.0.b: first; Symbol(s): second; third; fourth.')
  })

  it('may report more than fits a log line', async () => {
    const issues = Array.from({ length: 10_000 }, (_, index) => ({ message: 'is wrong', path: [index] }))
    const error = await refusal(
      answering(() => ({ issues })),
      {},
    )
    expect(error.message).toContain('9: is wrong; and 9990 more.')
    expect(error.message.length).toBeLessThan(500)
  })

  it('is called once per message', async () => {
    let asked = 0
    await receive(
      answering((value) => {
        asked += 1
        return { value }
      }),
      {},
    )
    expect(asked).toBe(1)
  })
})

import { Ajv } from 'ajv'
import { describe, expect, it } from 'vitest'
import { rootContext } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { JsonSchemaRegistry, jsonSchemaMiddleware } from '../../src/middleware/json-schema.ts'

const orderSchema = {
  type: 'object',
  required: ['number', 'items'],
  properties: {
    number: { type: 'integer' },
    items: { type: 'array', items: { type: 'object', properties: { price: { type: 'number' } } } },
  },
}
const valid = { number: 1, items: [{ price: 2 }] }

function openRegistry(options = {}): JsonSchemaRegistry {
  const ajv = new Ajv(options)
  return new JsonSchemaRegistry(ajv.compile.bind(ajv)).register('order', orderSchema)
}

describe('the registry', () => {
  it('reports problems by path and keyword', () => {
    const registry = openRegistry({ allErrors: true })
    expect(registry.validate('order', valid)).toEqual([])
    expect(registry.validate('order', { number: 'one', items: [{ price: 'two' }] })).toEqual([
      { path: '/number', keyword: 'type' },
      { path: '/items/0/price', keyword: 'type' },
    ])
    expect(registry.validate('order', null)).toEqual([{ path: '', keyword: 'type' }])
  })

  it('points at a missing property', () => {
    expect(openRegistry().validate('order', { items: [] })).toEqual([{ path: '/number', keyword: 'required' }])
  })

  it('has no schema for other types', () => {
    const registry = openRegistry()
    expect(registry.validate('invoice', valid)).toBeUndefined()
    expect(registry.schema('invoice')).toBeUndefined()
  })

  it('returns the registered schemas, in their order', () => {
    const registry = openRegistry().register('any', {})
    expect(registry.schema('order')).toBe(orderSchema)
    expect([...registry.schemas().keys()]).toEqual(['order', 'any'])
  })

  it('does not expose its catalogue to changes', () => {
    const registry = openRegistry()
    const catalogue = registry.schemas() as Map<string, object>
    catalogue.clear()
    expect(registry.schema('order')).toBe(orderSchema)
  })

  it('rejects a schema that does not compile immediately, naming the type, and forgets it', () => {
    const registry = openRegistry()
    const bad = { type: 'nonsense' }
    expect(() => registry.register('invoice', bad)).toThrow("register('invoice') got a schema that does not compile")
    expect(() => registry.register('invoice', bad)).toThrow(
      expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', cause: expect.any(Error) }),
    )
    expect(registry.schema('invoice')).toBeUndefined()
  })

  it('rejects a second schema for a type, an asynchronous one, and none', () => {
    const registry = openRegistry()
    expect(() => registry.register('order', {})).toThrow("register('order') was already called")
    expect(() => registry.register('other', { $async: true })).toThrow('asynchronous')
    expect(() => registry.register('', {})).toThrow('type must be')
    // @ts-expect-error a caller without types
    expect(() => registry.register('other', undefined)).toThrow('requires a schema; it got undefined')
  })

  it('accepts any validator of that shape, also one without reasons', () => {
    const registry = new JsonSchemaRegistry(() => (data) => data === 1).register('one', {})
    expect(registry.validate('one', 1)).toEqual([])
    expect(registry.validate('one', 2)).toEqual([{ path: '', keyword: 'schema' }])
  })
})

describe('the middleware', () => {
  const input = new Message<unknown>(valid, { type: 'order', id: '1' })

  it('passes on valid data', async () => {
    const outputs = [new Message(valid, { type: 'order' })]
    const run = jsonSchemaMiddleware(openRegistry())(async () => outputs)
    expect(await run(input, rootContext())).toBe(outputs)
  })

  it('rejects an input before it is handled, with the paths and without the data', async () => {
    let called = false
    const run = jsonSchemaMiddleware(openRegistry({ allErrors: true }))(async () => {
      called = true
      return []
    })
    const secret = { number: 'secret', items: [{ price: 'secret' }] }
    const failure = await run(input.copy(secret), rootContext()).catch((error: unknown) => error)
    expect(failure).toMatchObject({ code: 'ACKORD_VALIDATION_FAILED', retryable: false })
    expect(String(failure)).toContain("(id '1') does not match its JSON schema at '/number' (type), '/items/0/price' (type).")
    expect(String(failure)).not.toContain('secret')
    expect(called).toBe(false)
  })

  it('rejects an output as a fault of the handler, which may be fixed', async () => {
    const run = jsonSchemaMiddleware(openRegistry())(async () => [input.copy({ number: 1 })])
    await expect(run(input, rootContext())).rejects.toMatchObject({
      code: 'ACKORD_VALIDATION_FAILED',
      retryable: true,
      message: expect.stringContaining("'/items' (required)"),
    })
  })

  it('reports at most ten paths', async () => {
    const items = Array.from({ length: 25 }, () => ({ price: 'x' }))
    const run = jsonSchemaMiddleware(openRegistry({ allErrors: true }))(async () => [])
    await expect(run(input.copy({ number: 1, items }), rootContext())).rejects.toThrow(/'\/items\/9\/price' \(type\) and 15 more\.$/)
  })

  it('does not validate outputs if configured so, and may then be placed anywhere', async () => {
    const middleware = jsonSchemaMiddleware(openRegistry(), { outputs: false })
    const outputs = [input.copy('bad')]
    expect(await middleware(async () => outputs)(input, rootContext())).toBe(outputs)
    expect(middleware.role).toBeUndefined()
    expect(jsonSchemaMiddleware(openRegistry()).role).toBe('outputs')
  })

  it.each([{ type: 'invoice' }, {}])('passes a type without schema on by default, or rejects it: %j', async (attributes) => {
    const message = new Message('data', attributes)
    const passing = jsonSchemaMiddleware(openRegistry())(async () => [])
    expect(await passing(message, rootContext())).toEqual([])
    const rejecting = jsonSchemaMiddleware(openRegistry(), { unknown: 'reject' })(async () => [])
    await expect(rejecting(message, rootContext())).rejects.toMatchObject({
      code: 'ACKORD_VALIDATION_FAILED',
      retryable: false,
    })
  })

  it('rejects an invalid choice for unknown types', () => {
    // @ts-expect-error a caller without types
    expect(() => jsonSchemaMiddleware(openRegistry(), { unknown: 'drop' })).toThrow(/^unknown must be one of/)
  })
})

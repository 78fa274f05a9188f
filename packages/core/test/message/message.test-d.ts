import { assertType, describe, expectTypeOf, it } from 'vitest'
import type { Attributes } from '../../src/message/attributes.ts'
import { type Context, contextKey } from '../../src/message/context.ts'
import { Message, parseMessage, type RawMessage } from '../../src/message/message.ts'

describe('Message', () => {
  it('is not a context, and a context is not a message', () => {
    expectTypeOf<Message>().not.toExtend<Context>()
    expectTypeOf<Context>().not.toExtend<Message>()
    const process = (message: Message, context: Context) => [message, context]
    const message = new Message(1)
    // @ts-expect-error: the message is not a context
    process(message, message)
  })

  it('infers its type from the data', () => {
    expectTypeOf(new Message({ a: 1 })).toEqualTypeOf<Message<{ a: number }>>()
    expectTypeOf(new Message({ a: 1 }).data.a).toEqualTypeOf<number>()
    expectTypeOf(new Message(1).copy('text')).toEqualTypeOf<Message<string>>()
    expectTypeOf(new Message('text').withAttributes({})).toEqualTypeOf<Message<string>>()
    expectTypeOf(new Message('text').fork(2)).toEqualTypeOf<Message<string>[]>()
  })

  it('of bytes is a raw message, and nothing else is', () => {
    expectTypeOf<Message<Uint8Array>>().toExtend<RawMessage>()
    expectTypeOf<Message<Buffer>>().toExtend<RawMessage>()
    expectTypeOf<RawMessage>().toExtend<Message>()
    expectTypeOf<Message>().not.toExtend<RawMessage>()
    expectTypeOf<Message<string>>().not.toExtend<RawMessage>()
    expectTypeOf(parseMessage('{}')).toEqualTypeOf<RawMessage>()
  })

  it('cannot be created as a plain object', () => {
    expectTypeOf<{ data: unknown; attributes: Attributes }>().not.toExtend<Message>()
  })

  it('accepts values of the type of their key only', () => {
    const count = contextKey<number>('count')
    const message = new Message('text').withValue(count, 1)
    expectTypeOf(message).toEqualTypeOf<Message<string>>()
    expectTypeOf(message.value(count)).toEqualTypeOf<number | undefined>()
    // @ts-expect-error: the key is for numbers
    message.withValue(count, 'one')
  })

  it('has attributes that are not changed in place', () => {
    const message = new Message(1, { type: 'a' })
    // @ts-expect-error: attributes are read-only
    message.attributes.type = 'b'
    // @ts-expect-error: so are extensions
    message.attributes['tenant'] = 'b'
    // @ts-expect-error: no broker carries objects
    assertType<Attributes>({ tenant: {} })
    assertType<Attributes>({ tenant: 'a', priority: 1, urgent: true, until: new Date(), mark: new Uint8Array() })
  })
})

import { expect, it } from 'vitest'
import type { Attributes } from '../../src/message/attributes.ts'
import { rootContext } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { subjectMiddleware } from '../../src/middleware/subject.ts'

class Order {
  readonly #number: number
  constructor(number: number) {
    this.#number = number
  }
  subject(): string {
    return `order/${this.#number}`
  }
}

async function subjectFor(data: unknown, middleware = subjectMiddleware(), attributes: Attributes = {}) {
  const output = new Message(data, attributes)
  const [result] = await middleware(async () => [output])(new Message('input', { subject: 'input' }), rootContext())
  return { subject: result?.subject, result, output }
}

it.each<[string, unknown, string | undefined]>([
  ['a text', { subject: 'order/1' }, 'order/1'],
  ['a method', new Order(2), 'order/2'],
  ['an empty string', { subject: '' }, undefined],
  ['something else', { subject: 7 }, undefined],
  ['a method that returns something else', { subject: () => 7 }, undefined],
  ['no member', { id: 1 }, undefined],
  ['no object', 'subject', undefined],
  ['null', null, undefined],
])('reads the subject from data with %s', async (_title, data, expected) => {
  expect((await subjectFor(data)).subject).toBe(expected)
})

it('keeps the subject of an output, and the output itself', async () => {
  const { result, output } = await subjectFor(new Order(1), subjectMiddleware(), { subject: 'own' })
  expect(result).toBe(output)
})

it('changes nothing but the subject', async () => {
  const { result, output } = await subjectFor(new Order(1), subjectMiddleware(), { id: '2', type: 'order.placed' })
  expect(result?.attributes).toEqual({ id: '2', type: 'order.placed', subject: 'order/1' })
  expect(result?.data).toBe(output.data)
  expect(output.subject).toBeUndefined()
})

it('uses the configured function instead', async () => {
  const middleware = subjectMiddleware((data) => (typeof data === 'number' ? `number/${data}` : undefined))
  expect((await subjectFor(7, middleware)).subject).toBe('number/7')
  expect((await subjectFor(new Order(1), middleware)).subject).toBeUndefined()
})

it('has the role of a middleware that changes outputs', () => {
  expect(subjectMiddleware().role).toBe('outputs')
})

import { describe, expect, it } from 'vitest'
import { deadLetterForms } from '../../src/broker/dead-letter.ts'
import { readDeadLetter } from '../../src/broker/read-dead-letter.ts'
import { AckordError } from '../../src/errors.ts'
import { Message, type RawMessage } from '../../src/message/message.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

const attributes = {
  id: 'm1',
  type: 'order.place',
  source: '/shop',
  specversion: '1.0',
  count: 3,
  urgent: true,
  digest: Uint8Array.of(1, 255),
  note: 'n'.repeat(500),
}
const data = new Uint8Array(100_000).map((_, index) => index)
const error = new AckordError('ACKORD_REJECTED', 'no such customer')
const runtime = new VirtualRuntime()
const time = new Date(runtime.now()).toISOString()

function formsOf(message: RawMessage): readonly RawMessage[] {
  return [...deadLetterForms(message, error, runtime, { deadletterdestination: 'orders' })]
}

describe('a dead letter that is read back', () => {
  const message = new Message(data, attributes)

  it.each([0, 1])('is the rejected message in form %i, without the marks of a letter', (form) => {
    const letter = readDeadLetter(formsOf(message)[form] as RawMessage)
    expect(letter).toMatchObject({ missing: undefined, destination: 'orders', reason: 'no such customer', code: 'ACKORD_REJECTED', time })
    expect(letter.message.attributes).toEqual(attributes)
    expect(letter.message.data).toEqual(data)
  })

  it('lacks attributes in the forms that have only the bytes', () => {
    const [, , short, shortest] = formsOf(message).map(readDeadLetter)
    expect(short).toMatchObject({ missing: 'attributes', destination: 'orders', reason: 'no such customer' })
    expect(shortest).toMatchObject({ missing: 'attributes', destination: undefined })
    for (const letter of [short, shortest]) {
      expect(letter?.message.data).toEqual(data)
      expect(letter?.message.attributes).not.toHaveProperty('deadletterform')
    }
  })

  it('lacks data in every truncated envelope', () => {
    const truncated = formsOf(message).slice(4).map(readDeadLetter)
    expect(truncated.map(({ missing }) => missing)).toEqual(['data', 'data', 'data'])
    for (const { reason, message: read } of truncated) {
      expect(reason).toBe('no such customer')
      expect(read.id).toBe('m1')
    }
  })

  it('lacks attributes if an envelope has all of the data and not all of them', () => {
    const small = new Message(Uint8Array.of(1), attributes)
    const cut = formsOf(small).map(readDeadLetter).at(-2)
    expect(cut).toMatchObject({ missing: 'attributes' })
    expect(cut?.message.data).toEqual(Uint8Array.of(1))
  })

  it('lacks data if it is the copy of a record that could not be read, or an envelope that is none', () => {
    const noData = new Message(new Uint8Array(), { ...attributes, deadletterform: 'nodata' })
    expect(readDeadLetter(noData).missing).toBe('data')
    for (const body of [
      '',
      'null',
      '[]',
      '{}',
      '{"attributes":[null],"data_base64":1}',
      '{"attributes":{},"data_base64":"","dataLength":0}',
    ]) {
      const letter = new Message(new TextEncoder().encode(body), { id: 'm1', deadletterform: 'envelope', deadlettercode: 'CODE' })
      expect(readDeadLetter(letter)).toMatchObject({ missing: 'data', code: 'CODE' })
    }
  })

  it('is the message itself if that was never rejected', () => {
    const letter = readDeadLetter(message)
    expect(letter).toMatchObject({ missing: undefined, destination: undefined, reason: undefined, code: undefined, time: undefined })
    expect(letter.message.attributes).toEqual(attributes)
  })
})

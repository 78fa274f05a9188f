import { Message } from '@ackord/core'
import { VirtualRuntime } from '@ackord/testkit'
import { expect, it } from 'vitest'
import { DeliveryCounts, type HeldMessage, HttpIteration } from '../../src/source/http-iteration.ts'
import { AcceptedMessages } from '../../src/source/open-request.ts'
import { never } from '../support/world.ts'

/** More than a call can have arguments. */
const many = 200_000
const contents = Array.from({ length: many }, (_, index) => ({ data: new Uint8Array(), attributes: { id: String(index) } }))

it('takes a batch of any size, and gives all of it back', async () => {
  let givenBack = 0
  const giveBack = () => {
    givenBack += 1
  }
  const held = contents.map((content): HeldMessage => ({ take: () => content, ack: () => {}, nack: () => {}, giveBack }))
  const iteration = new HttpIteration(
    {
      disposed: false,
      counts: new DeliveryCounts(),
      receive: ({ data, attributes }) => new Message(data, attributes),
      started: () => {},
      ended: () => {},
    },
    never,
  )
  const first = iteration.messages.next()
  iteration.deliver(held)

  expect((await first).value?.id).toBe('0')
  expect(iteration.load).toBe(many)
  await iteration.messages.end()
  expect(givenBack).toBe(many - 1)
})

it('keeps a batch of any size that was accepted when there is no reader', () => {
  const delivered: number[] = []
  let hasReader = false
  const accepted = new AcceptedMessages(new VirtualRuntime(), {
    deliver(messages) {
      if (hasReader) delivered.push(messages.length)
      return hasReader
    },
    release() {},
  })
  accepted.accept(contents)
  hasReader = true
  accepted.resume()

  expect(delivered).toEqual([many])
})

import { Message } from '@ackord/core'
import { VirtualRuntime } from '@ackord/testkit'
import { expect, it } from 'vitest'
import { DeliveryCounts, type HeldMessage, HttpIteration } from '../../src/source/http-iteration.ts'
import { AcceptedMessages } from '../../src/source/open-request.ts'
import { never } from '../support/world.ts'

/** More than the maximum number of arguments of a call. */
const many = 200_000
const contents = Array.from({ length: many }, (_, index) => ({ data: new Uint8Array(), attributes: { id: String(index) } }))

it('accepts a batch of any size, and releases all of it', async () => {
  let released = 0
  const release = () => {
    released += 1
  }
  const held = contents.map((content): HeldMessage => ({ take: () => content, ack: () => {}, nack: () => {}, release }))
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
  expect(released).toBe(many - 1)
})

it('keeps a batch of any size that was accepted when there is no reader', () => {
  const delivered: number[] = []
  let hasReader = false
  const accepted = new AcceptedMessages(new VirtualRuntime(), {
    deliver(messages) {
      if (hasReader) delivered.push(messages.length)
      return hasReader
    },
    free() {},
  })
  accepted.accept(contents)
  hasReader = true
  accepted.resume()

  expect(delivered).toEqual([many])
})

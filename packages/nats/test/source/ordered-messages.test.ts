import { expect, it } from 'vitest'
import type { HeldMessage } from '../../src/source/held-messages.ts'
import { OrderedMessages } from '../../src/source/ordered-messages.ts'

it('yields one message of a key at a time, in the order of the stream', () => {
  const { ordered, offered } = openOrdered()
  const [first, second, other] = [held(1), held(2), held(3, 'other')]
  ordered.open(0)
  for (const each of [first, second, other]) ordered.add(each)

  expect(offered).toEqual([first, other])
  ordered.done(first)
  expect(offered).toEqual([first, other, second])
})

it('drops collected messages that were returned before it is opened, so that their next delivery is yielded', () => {
  const { ordered, offered } = openOrdered()
  ordered.close()
  const stale = held(1)
  ordered.add(stale)
  ordered.done(stale)

  const fresh = held(1)
  ordered.add(fresh)
  ordered.open(0)

  expect(offered).toEqual([fresh])
})

it('keeps a key blocked while its message is being handled, when the messages behind it are returned', () => {
  const { ordered, offered } = openOrdered()
  const [inHand, waiting] = [held(1), held(2)]
  ordered.open(0)
  ordered.add(inHand)
  ordered.add(waiting)

  ordered.close()
  ordered.done(waiting)
  const again = held(2)
  ordered.add(again)
  ordered.open(0)

  expect(offered).toEqual([inHand])
  ordered.done(inHand)
  expect(offered).toEqual([inHand, again])
})

it('frees a key whose message was offered and returned', () => {
  const { ordered, offered } = openOrdered()
  const [first, waiting] = [held(1), held(2)]
  ordered.open(0)
  ordered.add(first)
  ordered.add(waiting)

  ordered.close()
  for (const each of [waiting, first]) ordered.done(each)
  const [firstAgain, waitingAgain] = [held(1), held(2)]
  for (const each of [waitingAgain, firstAgain]) ordered.add(each)
  ordered.open(0)

  expect(offered).toEqual([first, firstAgain])
  ordered.done(firstAgain)
  expect(offered).toEqual([first, firstAgain, waitingAgain])
})

function openOrdered(): { ordered: OrderedMessages; offered: HeldMessage[] } {
  const offered: HeldMessage[] = []
  const ordered = new OrderedMessages(
    ({ delivery }) => delivery.subject,
    (message) => void offered.push(message),
  )
  return { ordered, offered }
}

// Distinguishes two deliveries of one message.
let consumerSequence = 0

function held(sequence: number, subject = 'key'): HeldMessage {
  consumerSequence += 1
  const place = { subject, sequence, stream: 'orders', identity: `${sequence}`, consumerSequence, deliveryCount: 1, reply: '' }
  const delivery = { ...place, data: new Uint8Array(), headers: undefined, time: new Date(0) }
  return { delivery, deliveries: 1, yielded: false, hold: undefined, content: undefined, loss: undefined }
}

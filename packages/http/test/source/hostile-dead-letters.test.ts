import type { Attributes, RawMessage } from '@ackord/core'
import { createReceiver } from '@ackord/core/broker'
import { recordingLogger, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { httpPublisher, httpSource } from '../../src/index.ts'
import { open, pull } from '../support/world.ts'

/** A message of any source, whose dead letter is sent by HTTP to one of our receivers. */
async function deadLetterOf(attributes: Attributes, mode: 'binary' | 'structured' | 'batch'): Promise<RawMessage> {
  const runtime = new VirtualRuntime()
  const logger = recordingLogger()
  const receiver = httpSource({ runtime, logger })
  const letters = open(receiver)
  const fetch = (url: string, init: RequestInit) => receiver.handler(new Request(url, init))
  const publisher = httpPublisher({ url: 'http://receiver.test/dead', mode, fetch, runtime })
  const receive = createReceiver({ deadLetter: { publisher, destination: 'dead' }, runtime, logger })
  const calls: string[] = []
  const message = receive({ data: Buffer.from('data'), attributes, ack: () => void calls.push('ack'), nack: () => void calls.push('nack') })
  const rejecting = message.reject(new Error('it makes no sense 😀'))
  const letter = await Promise.race([pull(letters), rejecting.then(() => Promise.reject(new Error('There is no letter.')))])
  await letter.ack()
  expect(await rejecting).toBe(true)
  expect(calls).toEqual(['ack'])
  expect(logger.at('error')).toEqual([])
  return letter
}

const whole = { specversion: '1.0', id: 'h1', type: 'test.event', source: '/test' }

describe.each(['binary', 'structured', 'batch'] as const)('a dead letter over HTTP, %s', (mode) => {
  it.each([
    ['a time that is none', { ...whole, time: 'yesterday' }],
    ['a name in the wrong case', { ...whole, partitionKey: 'a' }],
    ['the name of the data', { ...whole, data: 'b' }],
    ['no id', { type: 'test.event' }],
    ['half of a surrogate pair', { ...whole, partitionKey: '\ud83d' }],
    ['a specversion that receivers refuse', { ...whole, specversion: '9.9' }],
  ])('is an envelope where the message has %s', async (_title, attributes) => {
    // Senders choose the attributes, whatever the types declare.
    const letter = await deadLetterOf(attributes as unknown as Attributes, mode)
    expect(letter.attributes).toMatchObject({ type: 'ackord.deadletter', deadletterform: 'envelope' })
    const envelope = JSON.parse(Buffer.from(letter.data).toString())
    expect(envelope.data_base64).toBe(Buffer.from('data').toString('base64'))
    expect(envelope.attributes.map(({ name }: { name: string }) => name)).toEqual(Object.keys(attributes))
  })
})

import { publishAll } from '@ackord/core'
import { CloudEvent, type CloudEventV1, emitterFor, HTTP, httpTransport, Mode, type Headers as SdkHeaders } from 'cloudevents'
import { describe, expect, it } from 'vitest'
import { httpPublisher, httpSource, toNodeHandler } from '../../src/index.ts'
import { event, open, pull, serve, text } from '../support/world.ts'

describe('the CloudEvents SDK', () => {
  it.each(['binary', 'structured', 'batch'] as const)('reads what we send in %s mode', async (mode) => {
    const received: CloudEventV1<unknown>[] = []
    await using server = await serve((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const read = HTTP.toEvent({ headers: request.headers as SdkHeaders, body: Buffer.concat(chunks).toString() })
        received.push(...(Array.isArray(read) ? read : [read]))
        response.end()
      })
    })
    const time = new Date('2026-01-02T03:04:05.678Z')

    await publishAll(httpPublisher({ url: server.url, mode }), 'd', [event('a', { time, subject: 'seven', myextension: 'x' })])

    expect(received.map((each) => ({ ...each }))).toMatchObject([
      { id: 'a', type: 'test.event', source: '/test', specversion: '1.0', subject: 'seven', myextension: 'x', data: { id: 'a' } },
    ])
    expect(new Date(received[0]?.time ?? '').getTime()).toBe(time.getTime())
  })

  it.each([Mode.BINARY, Mode.STRUCTURED])('sends what we read in %s mode', async (mode) => {
    const source = httpSource()
    const messages = open(source)
    await using server = await serve(toNodeHandler(source.handler))
    const emit = emitterFor(httpTransport(server.url), { mode })
    const sent = new CloudEvent({ type: 'order.placed', source: '/orders', subject: '7', data: { orderId: '7' }, tenant: 'acme' })

    const sending = emit(sent)
    const message = await pull(messages)
    await message.ack()
    await sending

    const { id, time } = sent
    expect(message.attributes).toMatchObject({
      id,
      time,
      type: 'order.placed',
      source: '/orders',
      subject: '7',
      tenant: 'acme',
      specversion: '1.0',
    })
    expect(JSON.parse(text(message))).toEqual({ orderId: '7' })
  })
})

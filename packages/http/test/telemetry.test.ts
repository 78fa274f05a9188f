import { channel } from 'node:diagnostics_channel'
import type { IncomingHttpHeaders } from 'node:http'
import { type Attributes, type BrokerAddress, publishAll, type RawMessage } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { type HttpPublisherOptions, type HttpSourceOptions, httpPublisher, httpSource } from '../src/index.ts'
import { binaryRequest, event, open, pull, secretOf, serve } from './support/world.ts'

const trace = {
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  tracestate: 'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE',
  baggage: 'user=alice,tier=gold;ttl=5',
}
const otherTrace = { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', tracestate: 'other=1', baggage: 'user=bob' }

/** Publishes to a real server; returns the headers of its requests. */
async function received(messages: readonly RawMessage[], options: HttpPublisherOptions = {}): Promise<IncomingHttpHeaders[]> {
  const requests: IncomingHttpHeaders[] = []
  await using server = await serve((request, response) => {
    requests.push(request.headers)
    request.resume().on('end', () => response.end())
  })
  await using publisher = httpPublisher({ url: server.url, concurrency: 1, ...options })
  await publishAll(publisher, 'd', messages)
  return requests
}

function traceOf(headers: Readonly<Record<string, unknown>> | undefined) {
  return { traceparent: headers?.['traceparent'], tracestate: headers?.['tracestate'], baggage: headers?.['baggage'] }
}

const none = traceOf({})

describe('a request', () => {
  it.each(['binary', 'structured'] as const)('has the trace of its event in the headers of W3C Trace Context, in %s mode', async (mode) => {
    const [traced, untraced] = await received([event('traced', trace), event('untraced')], { mode })

    expect(traceOf(traced)).toEqual(trace)
    expect(traced?.['ce-traceparent']).toBe(mode === 'binary' ? trace.traceparent : undefined)
    expect(traceOf(untraced)).toEqual(none)
  })

  it('with a batch has none, because each event has its own', async () => {
    const requests = await received([event('a', trace), event('b')], { mode: 'batch' })

    expect(requests.map(traceOf)).toEqual([none])
  })

  it('has the trace of the option headers, if that has one', async () => {
    const { traceparent } = otherTrace
    const [request] = await received([event('a', trace)], { headers: { Traceparent: traceparent } })

    expect(traceOf(request)).toEqual({ ...none, traceparent })
  })

  it('has one trace if an instrumentation of fetch adds its own without removing what is there', async () => {
    const created = channel('undici:request:create')
    const instrument = (data: unknown) => {
      const { request } = data as { readonly request: { addHeader(name: string, value: string): void } }
      request.addHeader('traceparent', otherTrace.traceparent)
    }
    created.subscribe(instrument)
    try {
      const [request] = await received([event('a', trace)])

      expect(traceOf(request)).toEqual({ ...none, traceparent: otherTrace.traceparent })
      expect(request?.['ce-traceparent']).toBe(trace.traceparent)
    } finally {
      created.unsubscribe(instrument)
    }
  })
})

/** The attributes of the message that a source makes of a request. */
async function attributesOf(request: Request, options: HttpSourceOptions = {}): Promise<Attributes> {
  await using source = httpSource(options)
  const messages = open(source)
  const answering = source.handler(request)
  const message = await pull(messages)
  await message.ack()
  expect((await answering).status).toBe(200)
  return message.attributes
}

function structuredRequest(events: object, headers: Readonly<Record<string, string>>): Request {
  const type = Array.isArray(events) ? 'application/cloudevents-batch+json' : 'application/cloudevents+json'
  return new Request('http://test/events', { method: 'POST', body: JSON.stringify(events), headers: { ...headers, 'content-type': type } })
}

const whole = { specversion: '1.0', id: 'a', type: 'test.event', source: '/test', data: 7 }

describe('an event', () => {
  it('has the trace of its request if it has none itself', async () => {
    expect(await attributesOf(binaryRequest('a', { headers: trace }))).toMatchObject(trace)
    expect(await attributesOf(structuredRequest(whole, trace))).toMatchObject(trace)
  })

  it('keeps its own trace, which is that of its creation', async () => {
    const ours = Object.fromEntries(Object.entries(trace).map(([name, value]) => [`ce-${name}`, value]))
    expect(await attributesOf(binaryRequest('a', { headers: { ...ours, ...otherTrace } }))).toMatchObject(trace)
    expect(await attributesOf(structuredRequest({ ...whole, ...trace }, otherTrace))).toMatchObject(trace)
  })

  it('of a batch has no trace but its own', async () => {
    expect(traceOf(await attributesOf(structuredRequest([whole], trace)))).toEqual(none)
  })

  it('has no trace if the request has two', async () => {
    const headers = { traceparent: `${trace.traceparent}, ${otherTrace.traceparent}` }
    expect(traceOf(await attributesOf(binaryRequest('a', { headers })))).toEqual(none)
  })

  it('has no trace that would exceed maxAttributesSize', async () => {
    const request = () => binaryRequest('a', { headers: trace })
    expect(traceOf(await attributesOf(request(), { maxAttributesSize: 150 }))).toEqual(none)
    expect(await attributesOf(request(), { maxAttributesSize: 400 })).toMatchObject(trace)
  })

  it('has only signed attributes, if its request is signed', async () => {
    const secret = secretOf('shared')
    const requests: Request[] = []
    const publisher = httpPublisher({
      url: 'http://test/events',
      sign: secret,
      fetch: async (url, init) => {
        requests.push(new Request(url, { ...init, headers: { ...(init.headers as Record<string, string>), ...otherTrace } }))
        return new Response()
      },
    })
    await publishAll(publisher, 'd', [event('traced', trace), event('untraced')])

    const [traced, untraced] = requests as [Request, Request]
    expect(await attributesOf(traced, { verify: secret })).toMatchObject(trace)
    expect(traceOf(await attributesOf(untraced.clone(), { verify: secret }))).toEqual(none)
    expect(await attributesOf(untraced, { verify: () => true })).toMatchObject(otherTrace)
  })
})

describe('the server', () => {
  const addressOf = ({ system, serverAddress, serverPort }: BrokerAddress) => [system, serverAddress, serverPort]

  it.each([
    ['http://receiver.test/events', 'receiver.test', 80],
    ['https://app:secret@receiver.test/events?token=1', 'receiver.test', 443],
    [new URL('http://[::1]:8080/'), '::1', 8080],
  ])('of a publisher is that of its URL, without secrets: %s', (url, host, port) => {
    expect(addressOf(httpPublisher({ url }))).toEqual(['http', host, port])
  })

  it('is unknown where it depends on the destination, and for a source, which is a server itself', async () => {
    expect(addressOf(httpPublisher())).toEqual(['http', undefined, undefined])
    expect(addressOf(httpPublisher({ route: () => 'http://receiver.test/' }))).toEqual(['http', undefined, undefined])
    expect(addressOf(httpSource())).toEqual(['http', undefined, undefined])
  })
})

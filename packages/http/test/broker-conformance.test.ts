import { randomUUID } from 'node:crypto'
import { MemoryBroker, publishAll } from '@ackord/core'
import { recordingLogger } from '@ackord/testkit'
import { type BrokerClaims, type BrokerWorld, ResultTable, testPublisher } from '@ackord/testkit/suites'
import { afterAll, describe, it } from 'vitest'
import { type HttpPublisherOptions, type HttpSource, httpPublisher, httpSource, toNodeHandler } from '../src/index.ts'
import { serve } from './support/world.ts'

const results = new ResultTable()

afterAll(() => console.log(results.format()))

/** A receiver that publishes each request to a broker, and then acks it. */
async function open(options: HttpPublisherOptions): Promise<BrokerWorld> {
  const broker = new MemoryBroker()
  const receivers = new Map<string, HttpSource>()
  const forwarding: Promise<void>[] = []
  const publishers: AsyncDisposable[] = []
  const stop = new AbortController()
  const server = await serve((request, response) => {
    const receiver = receivers.get(request.url ?? '')
    if (receiver === undefined) response.writeHead(404).end()
    else toNodeHandler(receiver.handler)(request, response)
  })
  const url = (path: string) => new URL(path, server.url).href
  const forward = async (receiver: HttpSource, topic: string) => {
    for await (const message of receiver.messages({ signal: stop.signal })) {
      await publishAll(broker, topic, [message])
      await message.ack()
    }
  }
  return {
    tooLarge: 3_000_000,
    async topic() {
      const path = `/${randomUUID()}`
      const receiver = httpSource({ maxBodySize: 2_000_000, logger: recordingLogger() })
      receivers.set(path, receiver)
      forwarding.push(forward(receiver, path))
      return { destination: url(path), source: ({ group } = {}) => broker.source(path, { group }) }
    },
    publisher() {
      const publisher = httpPublisher(options)
      publishers.push(publisher)
      return publisher
    },
    missing: () => url(`/${randomUUID()}`),
    async [Symbol.asyncDispose]() {
      for (const publisher of publishers) await publisher[Symbol.asyncDispose]()
      stop.abort()
      await Promise.all(forwarding)
      for (const receiver of receivers.values()) await receiver[Symbol.asyncDispose]()
      await server[Symbol.asyncDispose]()
      await broker.close()
    },
  }
}

const claims: BrokerClaims = { declared: true, sizeLimit: true }
for (const mode of ['binary', 'structured', 'batch'] as const)
  testPublisher({ describe, it }, { name: `HTTP, ${mode}`, open: () => open({ mode }), claims, results })

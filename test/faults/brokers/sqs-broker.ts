import { publishAll, silentLogger } from '@ackord/core'
import { startFaultProxy } from '@ackord/testkit'
import { openWorld, sqsUrl } from '../../../packages/aws/test/support/world.ts'
import { eventsName } from '../names.ts'
import type { BrokerMoment, FaultBrokerKind } from './broker.ts'

const operations: Readonly<Record<BrokerMoment, string>> = {
  publish: 'AmazonSQS.SendMessageBatch',
  ack: 'AmazonSQS.DeleteMessageBatch',
}

export const sqsBroker: FaultBrokerKind = {
  name: 'SQS (emulator)',
  async open() {
    const proxy = await startFaultProxy(sqsUrl)
    const world = openWorld({ url: proxy.url })
    const [input, output] = [await world.queue(), await world.queue()]
    // One client each: a half-open connection of the publisher is not used by the source.
    const publisher = world.publisher({ queue: (name) => (name === eventsName ? output : name), timeout: 1000 }, world.another())
    const source = world.source(input, { visibilityTimeout: 3000, prefetch: 8, logger: silentLogger, backoff: () => 20 })
    const sender = world.publisher({}, world.admin)
    const published: string[] = []
    const stop = new AbortController()
    const reader = world.source(output, { logger: silentLogger }, world.admin)
    const reading = (async () => {
      for await (const event of reader.messages({ signal: stop.signal })) {
        published.push(String(event.id))
        await event.ack()
      }
    })()

    return {
      source,
      publisher,
      proxy: () => proxy,
      recognise: (moment) => (bytes) => bytes.includes(operations[moment]),
      send: (commands) => publishAll(sender, input, commands),
      published: () => [...published],
      async waiting() {
        const { visible, inFlight } = await world.counts(input)
        return visible + inFlight
      },
      async [Symbol.asyncDispose]() {
        proxy.judge()
        stop.abort()
        await reading
        await world[Symbol.asyncDispose]()
        await proxy[Symbol.asyncDispose]()
      },
    }
  },
}

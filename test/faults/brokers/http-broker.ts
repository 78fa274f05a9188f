import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { publishAll, type RawMessage, silentLogger } from '@ackord/core'
import { httpPublisher, httpSource, toNodeHandler } from '@ackord/http'
import { startFaultProxy } from '@ackord/testkit'
import type { FaultBrokerKind } from './broker.ts'

/**
 * HTTP has no broker in between: the sender of commands keeps them until they are answered, and the answer is the ack. So each direction has
 * its own proxy: one for the commands to the service, one for the events to the receiver.
 */
export const httpBroker: FaultBrokerKind = {
  name: 'HTTP',
  async open() {
    const source = httpSource({ logger: silentLogger, settleTimeout: 3000 })
    const receiver = httpSource({ logger: silentLogger })
    const [commands, events] = [
      await listen(createServer(toNodeHandler(source.handler))),
      await listen(createServer(toNodeHandler(receiver.handler))),
    ]
    const proxies = { ack: await startFaultProxy(urlOf(commands)), publish: await startFaultProxy(urlOf(events)) }
    const sender = httpPublisher({ url: proxies.ack.url, timeout: 4000 })
    const publisher = httpPublisher({ url: proxies.publish.url, timeout: 1000 })
    const published: string[] = []
    const stop = new AbortController()
    const receiving = (async () => {
      for await (const event of receiver.messages({ signal: stop.signal })) {
        published.push(String(event.id))
        await event.ack()
      }
    })()
    let unanswered = 0

    return {
      source,
      publisher,
      proxy: (moment) => proxies[moment],
      // The request is recognised for both moments: its response is the ack.
      recognise: () => (bytes) => bytes.includes('POST /'),
      async send(messages) {
        unanswered += messages.length
        for (const message of messages) void persist(message)
      },
      published: () => [...published],
      waiting: () => unanswered,
      async [Symbol.asyncDispose]() {
        for (const proxy of Object.values(proxies)) proxy.judge()
        await source[Symbol.asyncDispose]()
        stop.abort()
        await receiving
        await receiver[Symbol.asyncDispose]()
        await publisher[Symbol.asyncDispose]()
        await sender[Symbol.asyncDispose]()
        for (const proxy of Object.values(proxies)) await proxy[Symbol.asyncDispose]()
        for (const server of [commands, events]) await close(server)
      },
    }

    /** Sends the message until it is answered. */
    async function persist(message: RawMessage): Promise<void> {
      for (;;) {
        try {
          await publishAll(sender, 'commands', [message])
          unanswered -= 1
          return
        } catch {
          // Not confirmed: the sender keeps the message and retries.
        }
      }
    }
  },
}

async function listen(server: Server): Promise<Server> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}

function urlOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

async function close(server: Server): Promise<void> {
  const closed = once(server, 'close')
  server.close()
  server.closeAllConnections()
  await closed
}

import { once } from 'node:events'
import { createServer } from 'node:http'
import { type Attributes, MemoryBroker, type RawMessage } from '@ackord/core'
import { recordingLogger } from '@ackord/testkit'
import { type BrokerClaims, type BrokerWorld, ResultTable, testSource } from '@ackord/testkit/suites'
import { afterAll, describe, it } from 'vitest'
import { type HttpSource, httpSource, toNodeHandler } from '../../src/index.ts'
import { portOf } from '../support/world.ts'

const results = new ResultTable()

afterAll(() => console.log(results.format()))

interface Receiver extends AsyncDisposable {
  readonly url: string
}

/** Closes as a service should: responses that were decided are still sent. */
async function startReceiver({ handler }: HttpSource): Promise<Receiver> {
  const server = createServer({ maxHeaderSize: 65_536 }, toNodeHandler(handler))
  server.keepAliveTimeout = 1
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${portOf(server)}/`,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close')
      server.close()
      server.closeIdleConnections()
      await closed
    },
  }
}

/** Not as CloudEvents, which require attributes: the binding has its own tests. */
async function post(url: string, { data, attributes }: RawMessage, signal: AbortSignal): Promise<boolean> {
  const headers = { 'x-attributes': Buffer.from(JSON.stringify(attributes)).toString('base64') }
  const response = await fetch(url, { method: 'POST', body: data, headers, signal })
  await response.arrayBuffer()
  return response.ok
}

function attributesOf({ headers }: { readonly headers: Headers }): Attributes {
  return JSON.parse(Buffer.from(headers.get('x-attributes') ?? '', 'base64').toString())
}

/** HTTP stores nothing; the sender has to resend. This sender has a broker's queue, and sends each message until a receiver has acked it. */
async function open(): Promise<BrokerWorld> {
  const broker = new MemoryBroker()
  const stop = new AbortController()
  const cleaning: (() => Promise<unknown>)[] = []
  let topics = 0
  return {
    async topic() {
      topics += 1
      const topic = `topic-${topics}`
      const receivers: Receiver[] = []
      let turn = 0
      const send = async (message: RawMessage) => {
        turn += 1
        const receiver = receivers[turn % Math.max(1, receivers.length)]
        const taken = receiver !== undefined && (await post(receiver.url, message, stop.signal).catch(() => false))
        await (taken ? message.ack() : message.nack(new Error('not taken'), { retryAfter: 20 }))
      }
      const sending = (async () => {
        for await (const message of broker.source(topic).messages({ signal: stop.signal })) void send(message).catch(() => {})
      })()
      cleaning.push(() => sending)
      return {
        destination: topic,
        source({ deadLetter, prefetch } = {}) {
          const source = httpSource({
            deadLetter,
            maxRequests: prefetch,
            attributes: attributesOf,
            maxBodySize: 2_000_000,
            logger: recordingLogger(),
          })
          const starting = startReceiver(source)
          void starting.then((receiver) => receivers.push(receiver))
          const dispose = async () => {
            const receiver = await starting
            await source[Symbol.asyncDispose]()
            const index = receivers.indexOf(receiver)
            if (index === -1) return
            receivers.splice(index, 1)
            await receiver[Symbol.asyncDispose]()
          }
          cleaning.push(dispose)
          return { system: source.system, messages: (options) => source.messages(options), [Symbol.asyncDispose]: dispose }
        },
      }
    },
    publisher: () => ({
      publish: (destination, messages, options) => broker.publish(destination, messages, options),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    }),
    async [Symbol.asyncDispose]() {
      stop.abort()
      for (const clean of cleaning) await clean()
      await broker.close()
    },
  }
}

const claims: BrokerClaims = { deliveryCount: true, names: true }
testSource({ describe, it }, { name: 'HTTP, a sender that sends again', open, claims, results })

import { setTimeout as pause } from 'node:timers/promises'
import { jsonMarshaler, Message, marshal, publishAll, silentLogger } from '@ackord/core'
import { rabbitmqPublisher } from '@ackord/rabbitmq'
import { connect } from 'amqplib'
import { isSentTwice, queues, rabbitmqUrl } from './load-plan.ts'

/** Commands that may wait in the queue, so that the run is not about a long queue. */
const mostWaiting = 10_000
const portion = 1000

/** What came out so far. */
interface Received {
  /** Different events. */
  readonly events: number
  /** Events beyond the first of their id. */
  readonly duplicates: number
  readonly deadLetters: number
}

export interface LoadBroker extends AsyncDisposable {
  /** Sends all commands, and every tenth a second time, a portion later. Resolves to how many there were. */
  send(messages: number): Promise<number>
  received(): Received
  /** Commands that wait. */
  waiting(): Promise<number>
}

/** The queues of the run, what fills them, and who counts what comes out. */
export async function openLoadBroker(): Promise<LoadBroker> {
  const connection = await connect(rabbitmqUrl)
  const channel = await connection.createChannel()
  for (const queue of Object.values(queues)) {
    await channel.deleteQueue(queue)
    // A quorum queue counts deliveries.
    await channel.assertQueue(queue, { arguments: { 'x-queue-type': queue === queues.commands ? 'quorum' : 'classic' } })
  }
  const publisher = rabbitmqPublisher(connection, { logger: silentLogger })
  const seen = new Set<string>()
  let events = 0
  let deadLetters = 0
  await channel.consume(
    queues.events,
    (message) => {
      events += 1
      seen.add(String(message?.properties.messageId))
    },
    { noAck: true },
  )
  await channel.consume(
    queues.dead,
    () => {
      deadLetters += 1
    },
    { noAck: true },
  )
  const waiting = async () => (await channel.checkQueue(queues.commands)).messageCount

  return {
    waiting,
    received: () => ({ events: seen.size, duplicates: events - seen.size, deadLetters }),
    async send(messages) {
      let sent = 0
      let again: number[] = []
      for (let start = 0; start < messages || again.length > 0; start += portion) {
        const fresh = Array.from({ length: Math.max(0, Math.min(portion, messages - start)) }, (_, offset) => start + offset)
        await publishAll(publisher, queues.commands, [...fresh, ...again].map(command))
        sent += fresh.length + again.length
        again = fresh.filter(isSentTwice)
        while ((await waiting()) > mostWaiting) await pause(50)
      }
      return sent
    },
    async [Symbol.asyncDispose]() {
      for (const queue of Object.values(queues)) await channel.deleteQueue(queue)
      await publisher[Symbol.asyncDispose]()
      await connection.close()
    },
  }
}

function command(index: number) {
  const attributes = { id: `m-${index}`, type: 'order.place', source: '/shop', specversion: '1.0' }
  return marshal(new Message({ index, note: 'x'.repeat(200) }, attributes), jsonMarshaler)
}

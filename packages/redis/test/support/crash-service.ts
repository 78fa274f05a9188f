import { commandHandler, defineEvent, Router } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { type RabbitmqConnection, rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { runCrashable } from '@ackord/testkit/suites'
import { connect } from 'amqplib'
import { Redis as Ioredis } from 'ioredis'
import { fromIoredis, streamOutbox, transactional } from '../../src/index.ts'
import { luaOutbox } from '../../src/outbox/lua/index.ts'
import { batchSize, consumer, ordersKey } from './crash-rules.ts'

const { CRASH_REDIS = '', CRASH_RABBITMQ = '', CRASH_TAG = '', CRASH_INPUT = '', CRASH_OUTPUT = '', CRASH_MODE, CRASH_STORE } = process.env
const mode = CRASH_MODE === 'optimistic' ? 'optimistic' : 'exclusive'
const orderPlaced = defineEvent<{ readonly id: string }>('order.placed')

/** Orders arrive from a queue and are stored; their events are published to another queue. */
await runCrashable(process, async () => {
  const client = new Ioredis(CRASH_REDIS)
  const redis = fromIoredis(client)
  const outbox =
    CRASH_STORE === 'lua' ? luaOutbox(redis, { tag: CRASH_TAG }) : streamOutbox(redis, { tags: [CRASH_TAG], claimInterval: 100 })
  const input = await connect(CRASH_RABBITMQ, { recovery: true })
  const output = await connect(CRASH_RABBITMQ, { recovery: true })
  const publisher = rabbitmqPublisher(output)
  const deliveries = watchDeliveries(input)

  const router = new Router({ concurrency: 4 })
    .use(
      transactional(redis, {
        // A message of a killed process waits until this lease has expired.
        inbox: { consumer, tag: CRASH_TAG, mode, lease: 2000 },
        outbox: { outbox, destination: CRASH_OUTPUT },
      }),
    )
    .handle(
      commandHandler({ type: 'order.place', source: '/orders' }, async ({ id }: { readonly id: string }) => {
        // A list, so that a command that is applied twice appears twice.
        await redis.commands().rpush(ordersKey(CRASH_TAG), id)
        return [orderPlaced({ id })]
      }),
    )
  const relay = new Relay(outbox, { publisher, batchSize, lease: 2000, publishTimeout: 1500, pollInterval: 20, maxPollInterval: 50 })
  relay.start()
  // The runs send many commands twice. A duplicate that arrives while the first is being handled is nacked with a delay, and beyond half of the prefetch it would wait
  // in a retry queue, where a run that looks for commands left at the broker cannot see it: no queue counts a message that is being returned.
  const running = router.run(rabbitmqSource(input, { queue: CRASH_INPUT, prefetch: 8, retryQueues: false }))

  return {
    isIdle: () => deliveries.areSettled() && router.health().inFlight + router.health().queued + relay.health().inFlight === 0,
    async stop() {
      await router.stop()
      await running
      await relay.stop()
      await publisher[Symbol.asyncDispose]()
      for (const connection of [input, output]) await connection.close()
      client.disconnect()
    },
  }
})

/**
 * The router is done with a message that it nacked because another worker handles it, but the connection holds the message for a while before it returns it.
 * `areSettled`: no message is held, and none was returned since the last call: a message returned since then may have been missed when the broker was checked.
 */
function watchDeliveries(connection: RabbitmqConnection): { areSettled(): boolean } {
  let unsettled = 0
  let wentBack = false
  const createChannel = connection.createChannel.bind(connection)
  connection.createChannel = async () => {
    const channel = await createChannel()
    const consume = channel.consume.bind(channel)
    const { ack, nack } = channel
    return Object.assign(channel, {
      consume(...[queue, onMessage, options]: Parameters<typeof consume>) {
        const counting: typeof onMessage = (message) => {
          if (message !== null) unsettled += 1
          onMessage(message)
        }
        return consume(queue, counting, options)
      },
      ack(...given: Parameters<typeof ack>) {
        unsettled -= 1
        ack.apply(channel, given)
      },
      nack(...given: Parameters<typeof nack>) {
        unsettled -= 1
        wentBack = true
        nack.apply(channel, given)
      },
    })
  }
  return {
    areSettled() {
      const quiet = !wentBack
      wentBack = false
      return quiet && unsettled === 0
    },
  }
}

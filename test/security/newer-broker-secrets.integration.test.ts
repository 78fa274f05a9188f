import { amqpPublisher, amqpSource } from '@ackord/amqp'
import { eventBridgePublisher, snsPublisher, sqsPublisher, sqsSource } from '@ackord/aws'
import { Message, type Publisher, type RawMessage, type Source } from '@ackord/core'
import { mqttPublisher, mqttSource } from '@ackord/mqtt'
import { EventBridge } from '@aws-sdk/client-eventbridge'
import { SNS } from '@aws-sdk/client-sns'
import { SQS } from '@aws-sdk/client-sqs'
import mqtt from 'mqtt'
import { describe, it, vi } from 'vitest'
import { startStandInBroker } from '../../packages/amqp/test/support/stand-in-broker.ts'
import { closeConnection, open } from '../../packages/amqp/test/support/world.ts'
import { sqsUrl } from '../../packages/aws/test/support/world.ts'
import { startScriptedBroker } from '../../packages/mqtt/test/support/scripted-broker.ts'
import { freePort } from '../../scripts/servers/free-port.mjs'
import { ownName } from '../../scripts/test-run.mjs'
import { expectNoSecrets, handleInVain, password, payload, type Telling, telling } from './secrets.ts'

vi.setConfig({ testTimeout: 60_000 })

function secretEvent(id: string): RawMessage {
  const attributes = { id, type: 'order.place', source: '/shop', specversion: '1.0', datacontenttype: 'application/json' }
  return new Message(new TextEncoder().encode(JSON.stringify({ secret: payload })), attributes)
}

async function publish(publisher: Publisher, destination: string, { hear }: Telling): Promise<void> {
  const options = { signal: AbortSignal.timeout(2000) }
  hear(await publisher.publish(destination, [secretEvent('m-1'), secretEvent('m-2')], options).catch((error: unknown) => error))
}

/** Reads until an error ends the source. */
async function ended(source: Source, { hear }: Telling): Promise<void> {
  await source.messages({ signal: new AbortController().signal })[Symbol.asyncIterator]().next().then(hear, hear)
}

describe('errors and logs hold neither payloads nor passwords', () => {
  it('on SQS, SNS and EventBridge', async () => {
    const told = telling()
    const { logger } = told
    const settings = (endpoint: string) => ({
      endpoint,
      region: 'eu-central-1',
      credentials: { accessKeyId: 'orders', secretAccessKey: password, sessionToken: password },
      maxAttempts: 1,
    })
    const gone = `http://127.0.0.1:${await freePort()}`
    const queue = `ackord-test-${ownName()}`
    for (const endpoint of [sqsUrl, gone]) {
      const [sqs, sns, events] = [new SQS(settings(endpoint)), new SNS(settings(endpoint)), new EventBridge(settings(endpoint))]
      const topic = 'arn:aws:sns:eu-central-1:000000000000:missing'
      await publish(sqsPublisher(sqs, { timeout: 2000 }), 'missing', told)
      await publish(snsPublisher(sns, { timeout: 2000 }), topic, told)
      await publish(eventBridgePublisher(events, { timeout: 2000 }), 'missing', told)
      const missing = sqsSource(sqs, { queue: 'missing', logger, backoff: () => 5 })
      if (endpoint === sqsUrl) await ended(missing, told)
      await missing.close()
      for (const client of [sqs, sns, events]) client.destroy()
    }
    const sqs = new SQS(settings(sqsUrl))
    const { QueueUrl } = await sqs.createQueue({ QueueName: queue })
    await publish(sqsPublisher(sqs), queue, told)
    const source = sqsSource(sqs, { queue, waitTime: 0, logger })
    await handleInVain(source, told)
    await source.close()
    await sqs.deleteQueue({ QueueUrl })
    sqs.destroy()
    expectNoSecrets(told.heard())
  })

  it('over AMQP 1.0, with a broker that rejects the login, one that rejects the message, and one that cannot be reached', async () => {
    const told = telling()
    const { logger } = told
    await using strict = await startStandInBroker()
    strict.container.sasl_server_mechanisms['enable_plain'](() => false)
    await using picky = await startStandInBroker()
    picky.container.on('message', ({ delivery }) => delivery?.reject({ condition: 'amqp:not-allowed', description: 'not this one' }))
    picky.container.on('sender_open', ({ sender }) =>
      sender?.send({ message_id: 'm-1', subject: 'order.place', content_type: 'application/json', body: `{"secret":"${payload}"}` }),
    )
    const addresses = [strict.url, picky.url, `amqp://127.0.0.1:${await freePort()}`]
    for (const address of addresses) {
      const { port } = new URL(address)
      const connection = open(`amqp://orders:${password}@127.0.0.1:${port}`)
      const publisher = amqpPublisher(connection, { connectTimeout: 300, logger })
      await publish(publisher, 'orders', told)
      await publisher.close()
      if (address === picky.url) {
        const source = amqpSource(connection, { address: 'orders', logger, settleTimeout: 300, backoff: () => 5 })
        await handleInVain(source, told)
        await source.close()
      }
      await closeConnection(connection)
    }
    expectNoSecrets(told.heard())
  })

  it('on MQTT, with a broker that rejects the login, one that rejects the message, and one that cannot be reached', async () => {
    const told = telling()
    const { logger } = told
    await using strict = await startScriptedBroker({ connack: { reasonCode: 0x86 } })
    await using picky = await startScriptedBroker({ puback: () => 0x99, granted: 0x87 })
    for (const url of [strict.url, picky.url, `mqtt://127.0.0.1:${await freePort()}`]) {
      const client = mqtt.connect(url, {
        protocolVersion: 5,
        clean: false,
        clientId: ownName(),
        username: 'orders',
        password,
        reconnectPeriod: 50,
        properties: { sessionExpiryInterval: 60 },
      })
      client.on('error', told.hear)
      const source = mqttSource(client, { topic: 'orders', group: 'billing', logger })
      const publisher = mqttPublisher(client, { logger })
      await publish(publisher, 'orders', told)
      if (url === picky.url) await ended(source, told)
      await publisher.close()
      await source.close()
      await client.endAsync(true)
    }
    expectNoSecrets(told.heard())
  })
})

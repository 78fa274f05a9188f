import { Message, publishAll } from '@ackord/core'
import { startFaultProxy } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { event, numbered, open, openWorld, pull, pullMany, sqsUrl, until } from '../support/world.ts'

describe.concurrent('a source', () => {
  it('extends the visibility timeout at SQS while a message is handled: no other consumer gets it', async () => {
    await using proxy = await startFaultProxy(sqsUrl)
    await using world = openWorld({ url: proxy.url })
    const queue = await world.queue()
    await world.fill(queue, ['slow'])
    let extensions = 0
    proxy.judge((bytes) => {
      if (bytes.includes('ChangeMessageVisibilityBatch')) extensions += 1
      return 'pass'
    })
    const message = await pull(open(world.source(queue, { visibilityTimeout: 3000 })))
    const others = open(world.source(queue, {}, world.admin))
    const stolen = others.next()
    // One per second: without them the message would have been visible after three.
    await until(() => extensions === 4)
    expect(await world.counts(queue)).toEqual({ visible: 0, inFlight: 1 })
    await message.ack()
    expect(await world.counts(queue)).toEqual({ visible: 0, inFlight: 0 })
    await others.return?.()
    expect(await stolen).toEqual({ done: true, value: undefined })
  })

  it('waits for messages with long polling, and leaves without losing one', async () => {
    await using world = openWorld()
    const queue = await world.queue()
    const messages = open(world.source(queue, { waitTime: 1000 }))
    const next = pull(messages)
    await world.fill(queue, ['a'])
    await (await next).ack()
    await messages.return?.()
    await world.fill(queue, ['b'])
    expect((await pull(open(world.source(queue)))).id).toBe('b')
  })

  it('leaves dead letters to the redrive policy of the queue: SQS moves a message after its last delivery, as it was', async () => {
    await using world = openWorld()
    const dead = await world.queue()
    const policy = { deadLetterTargetArn: await world.arnOf(dead), maxReceiveCount: 2 }
    const queue = await world.queue({ RedrivePolicy: JSON.stringify(policy) })
    await world.fill(queue, ['poison', 'good'], { note: 'the same' })
    const messages = open(world.source(queue, { prefetch: 1 }))
    const counts: unknown[] = []
    for (let seen = 0; seen < 3; seen += 1) {
      const message = await pull(messages)
      if (message.id === 'good') await message.ack()
      else {
        counts.push(message.deliveryCount)
        await message.nack()
      }
    }
    const letter = await pull(open(world.source(dead)))
    expect(counts).toEqual([1, 2])
    expect(letter.attributes).toMatchObject({ id: 'poison', note: 'the same' })
    expect(await world.counts(queue)).toEqual({ visible: 0, inFlight: 0 })
  })

  it('reads a message of a publisher in binary mode, with up to ten message attributes', async () => {
    await using world = openWorld()
    const queue = await world.queue()
    const attributes = {
      ...{ id: 'id with spaces – “é” 🦊', type: 'order.placed', source: '/shop?a=1&b=2', specversion: '1.0', subject: 'order 7' },
      ...{ partitionkey: 'customer 7', time: '2026-01-02T03:04:05.678Z', datacontenttype: 'application/json' },
      traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
    }
    const sent = new Message(new TextEncoder().encode('{"total":12345678901234567890,"name":"é"}'), attributes)
    await publishAll(world.publisher({ mode: 'binary' }), queue, [sent])
    const received = await pull(open(world.source(queue)))
    expect(received.attributes).toEqual(attributes)
    expect(Buffer.from(received.data).toString()).toBe('{"total":12345678901234567890,"name":"é"}')
    await received.ack()
  })

  it('rejects messages that cannot be read into the dead letter, and delivers those of other producers', async () => {
    await using world = openWorld()
    const [queue, dead] = [await world.queue(), await world.queue()]
    const text = (StringValue: string) => ({ DataType: 'String', StringValue })
    const QueueUrl = await world.urlOf(queue)
    const structured = { 'content-type': text('application/cloudevents+json') }
    await world.admin.sendMessage({ QueueUrl, MessageBody: '{"specversion":', MessageAttributes: structured })
    await world.admin.sendMessage({ QueueUrl, MessageBody: '[]', MessageAttributes: structured })
    const binary = { 'content-type': text('text/plain'), 'x-ray': { DataType: 'Binary', BinaryValue: Uint8Array.of(1) } }
    await world.admin.sendMessage({ QueueUrl, MessageBody: 'hello', MessageAttributes: binary })

    const message = await pull(open(world.source(queue, { deadLetter: { publisher: world.publisher(), destination: dead } })))
    expect(message.attributes).toMatchObject({ type: queue, source: queue, datacontenttype: 'text/plain', time: expect.anything() })
    expect(Buffer.from(message.data as Uint8Array).toString()).toBe('hello')
    await message.ack()

    const letters = await pullMany(open(world.source(dead)), 2)
    expect(letters.map(({ data }) => Buffer.from(data as Uint8Array).toString()).sort()).toEqual(['[]', '{"specversion":'])
    for (const letter of letters) {
      expect(letter.attributes).toMatchObject({ deadletterdestination: queue, deadletterreason: expect.stringContaining('cannot be read') })
    }
  })

  it('stores a dead letter in a FIFO queue each time that a message is rejected, also if it was replayed in between', async () => {
    await using world = openWorld()
    const [queue, dead] = [await world.fifoQueue(), await world.fifoQueue()]
    const publisher = world.publisher({ deduplicate: false })
    const messages = open(world.source(queue, { deadLetter: { publisher: world.publisher(), destination: dead } }))
    const letters = open(world.source(dead))
    for (const reason of ['first', 'second']) {
      await publishAll(publisher, queue, [event('poison')])
      await (await pull(messages)).reject(new Error(reason))
      const letter = await pull(letters)
      expect(letter.attributes).toMatchObject({ id: 'poison', deadletterreason: reason })
      await letter.ack()
    }
  })

  it('of a queue that does not exist ends with an error that says so', async () => {
    await using world = openWorld()
    const queue = world.name()
    await expect(pull(open(world.source(queue)))).rejects.toMatchObject({
      code: 'ACKORD_SOURCE_FAILED',
      message: expect.stringContaining(`Queue '${queue}' cannot be read: it does not exist in this account and region.`),
    })
  })

  it('waits for a queue that is deleted while it is read, and logs that once', async () => {
    await using world = openWorld()
    const queue = await world.queue()
    const messages = open(world.source(queue))
    const first = pull(messages)
    await world.fill(queue, ['a'])
    await (await first).ack()
    const next = pull(messages)
    await world.admin.deleteQueue({ QueueUrl: await world.urlOf(queue) })
    await until(() => world.logger.at('warn').length === 1)
    await world.admin.createQueue({ QueueName: queue })
    await world.fill(queue, ['b'])
    expect((await next).id).toBe('b')
    expect(world.logger.at('warn').map(({ text }) => text)).toEqual([
      'The queue is not read: SQS cannot be reached, or refuses. It is tried again.',
    ])
    await until(() => world.logger.at('info').length === 1)
    expect(world.logger.at('info').map(({ text }) => text)).toEqual(['The queue is read again.'])
  })
})

describe.concurrent('a connection that is cut', () => {
  it.each(['standard', 'FIFO'])('while messages are consumed loses none of them: %s', async (kind) => {
    await using proxy = await startFaultProxy(sqsUrl)
    await using world = openWorld({ url: proxy.url })
    const isFifo = kind === 'FIFO'
    const queue = await (isFifo ? world.fifoQueue() : world.queue())
    const ids = numbered(40)
    await world.fill(queue, ids, isFifo ? { partitionkey: 'one' } : {})
    // In the order of their first deliveries.
    const seen = new Set<string | undefined>()
    let handled = 0
    const stop = new AbortController()
    const source = world.source(queue, { visibilityTimeout: 3000 })
    const consuming = (async () => {
      for await (const message of source.messages({ signal: stop.signal })) {
        seen.add(message.id)
        handled += 1
        if (handled % 20 === 10) proxy.cut()
        // If an ack is lost with the connection, the message comes again, unless SQS has deleted it.
        message.ack().catch(() => {})
      }
    })()
    await until(async () => seen.size === ids.length && Object.values(await world.counts(queue)).every((count) => count === 0))
    stop.abort()
    await consuming
    expect([...seen].sort()).toEqual([...ids].sort())
    if (isFifo) expect([...seen]).toEqual(ids)
    expect(world.logger.at('error')).toEqual([])
  })

  it('when SQS has stored a batch leaves it unconfirmed, and a FIFO queue drops the repeat', async () => {
    await using proxy = await startFaultProxy(sqsUrl)
    await using world = openWorld({ url: proxy.url })
    const queue = await world.fifoQueue()
    const publisher = world.publisher()
    let cuts = 0
    proxy.judge((bytes) => {
      if (cuts > 0 || !bytes.includes('AmazonSQS.SendMessageBatch')) return 'pass'
      cuts += 1
      return 'cut after'
    })
    const messages = ['a', 'b'].map((id) => event(id, { partitionkey: id }))
    const [lost] = await publisher.publish(queue, messages, { signal: new AbortController().signal })
    expect(lost).toMatchObject({ ok: false, scope: 'destination', error: { message: expect.stringContaining('It may be stored.') } })
    await publishAll(publisher, queue, messages)
    expect(await world.counts(queue)).toEqual({ visible: 2, inFlight: 0 })
  })

  it('or a server that does not answer fails a publish when its time is over', async () => {
    await using proxy = await startFaultProxy(sqsUrl)
    await using world = openWorld({ url: proxy.url })
    const queue = await world.queue()
    proxy.hold()
    const publishing = world.publisher({ timeout: 50 }).publish(queue, [event('a')], { signal: new AbortController().signal })
    expect(await publishing).toMatchObject([
      { ok: false, scope: 'destination', error: { cause: { message: 'AWS did not answer within 50 ms.' } } },
    ])
  })
})

it('a message of a FIFO queue that was published by another tool is read with its group as partitionkey', async () => {
  await using world = openWorld()
  const queue = await world.fifoQueue()
  const ids = { MessageGroupId: 'customer-7', MessageDeduplicationId: 'd1' }
  await world.admin.sendMessage({ QueueUrl: await world.urlOf(queue), MessageBody: '{"total":1}', ...ids })
  const message = await pull(open(world.source(queue)))
  expect(message.attributes).toMatchObject({ partitionkey: 'customer-7', type: queue })
})

it('source and publisher name SQS and the host of the queue for telemetry', async () => {
  await using world = openWorld()
  const queue = await world.queue()
  const [source, publisher] = [world.source(queue), world.publisher()]
  expect([source.system, source.serverAddress]).toEqual(['aws_sqs', undefined])
  await publishAll(publisher, queue, [event('a')])
  await (await pull(open(source))).ack()
  const { hostname, port } = new URL(await world.urlOf(queue))
  for (const { system, serverAddress, serverPort } of [source, publisher]) {
    expect([system, serverAddress, serverPort]).toEqual(['aws_sqs', hostname, Number(port)])
  }
})

import { type Channel, connect } from 'amqplib'
import { describe, expect, it } from 'vitest'
import { ackord } from '../support/ackord.ts'
import { idsOf, openLetters } from '../support/letters.ts'
import { rabbitmqUrl } from '../support/services.ts'
import { until } from '../support/until.ts'

async function openChannel(): Promise<AsyncDisposable & { readonly channel: Channel }> {
  const connection = await connect(rabbitmqUrl)
  return { channel: await connection.createChannel(), [Symbol.asyncDispose]: () => connection.close() }
}

describe('letters that no receiver of Ackord has written', () => {
  it('are replayed to the queue from which RabbitMQ moved them', async () => {
    await using world = await openLetters(rabbitmqUrl)
    await using opened = await openChannel()
    const { channel } = opened
    const queue = `${world.origin.topic}-limited`
    await channel.assertQueue(queue, { arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': world.dead.topic } })
    try {
      channel.sendToQueue(queue, Buffer.from('{}'), { messageId: 'm1', type: 'order.place' })
      let delivered: Awaited<ReturnType<typeof channel.get>> = false
      await until(async () => {
        delivered = await channel.get(queue)
        return delivered !== false
      })
      if (delivered !== false) channel.nack(delivered, false, false)
      await until(async () => (await channel.checkQueue(world.dead.topic)).messageCount === 1)
      expect(await world.list()).toMatchObject([{ id: 'm1', destination: queue, reason: 'rejected', replayable: true }])
      expect(await world.run('replay', '--all')).toMatchObject({ code: 0, last: { replayed: 1 } })
      expect(await channel.checkQueue(queue)).toMatchObject({ messageCount: 1 })
      expect(await world.list()).toEqual([])
    } finally {
      await channel.deleteQueue(queue)
    }
  })

  it('and cannot be read are listed by their position, skipped, and replayed with --to byte for byte', async () => {
    await using world = await openLetters(rabbitmqUrl)
    await using opened = await openChannel()
    const { channel } = opened
    const contentType = 'application/cloudevents+json'
    channel.sendToQueue(world.dead.topic, Buffer.from('{ no event'), { contentType })
    await until(async () => (await channel.checkQueue(world.dead.topic)).messageCount === 1)
    const [letter] = await world.list()
    expect(letter).toMatchObject({ id: '#1', position: '#1', replayable: false, problem: expect.stringContaining('JSON') })
    expect(await world.run('replay', '--all')).toMatchObject({ code: 1, last: { replayed: 0, skipped: 1 } })
    expect(idsOf(await world.list())).toEqual(['#1'])
    expect(await world.run('replay', '#1', '--to', world.origin.topic)).toMatchObject({ code: 0, last: { replayed: 1 } })
    const replayed = await channel.get(world.origin.topic, { noAck: true })
    expect(replayed).toMatchObject({ content: Buffer.from('{ no event'), properties: { contentType } })
  })

  it('are not looked at any more when half of the delivery limit of their queue is used up, except with --delivery-limit none', async () => {
    await using world = await openLetters(rabbitmqUrl)
    await using opened = await openChannel()
    const { channel } = opened
    const queue = `${world.dead.topic}-quorum`
    await channel.assertQueue(queue, { arguments: { 'x-queue-type': 'quorum', 'x-delivery-limit': 4 } })
    try {
      channel.sendToQueue(queue, Buffer.from('{}'), { messageId: 'm1', type: 'order.place' })
      await until(async () => (await channel.checkQueue(queue)).messageCount === 1)
      const run = (command: string, ...more: readonly string[]) =>
        ackord(['dead-letters', command, '--json', '--broker', rabbitmqUrl, '--from', queue, ...more])
      expect(await run('list', '--delivery-limit', '4')).toMatchObject({ code: 0, last: { letters: [{ id: 'm1' }] } })
      expect(await run('show', 'm1', '--delivery-limit', '4')).toMatchObject({ code: 0, last: { id: 'm1' } })
      const refused = await run('replay', '--all', '--to', world.origin.topic, '--delivery-limit', '4')
      expect(refused).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('--delivery-limit none') })
      const replayed = await run('replay', '--all', '--to', world.origin.topic, '--delivery-limit', 'none')
      expect(replayed).toMatchObject({ code: 0, last: { replayed: 1 } })
      expect(await channel.checkQueue(queue)).toMatchObject({ messageCount: 0 })
    } finally {
      await channel.deleteQueue(queue)
    }
  })

  it('return to their places when a command ends', async () => {
    await using world = await openLetters(rabbitmqUrl)
    await world.reject(['a1', 'a2', 'a3', 'a4'])
    expect(await world.run('replay', 'a2')).toMatchObject({ code: 0 })
    expect((await world.list()).map(({ id }) => id)).toEqual(['a1', 'a3', 'a4'])
    await using opened = await openChannel()
    expect(await opened.channel.checkQueue(world.dead.topic)).toMatchObject({ messageCount: 3 })
  })
})

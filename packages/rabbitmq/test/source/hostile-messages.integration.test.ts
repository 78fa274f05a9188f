import { describe, expect, it } from 'vitest'
import { declareTopology } from '../../src/index.ts'
import { open, openWorld, pull } from '../support/world.ts'

const failure = new Error('it makes no sense')
const structured = { contentType: 'application/cloudevents+json' }
const whole = { specversion: '1.0', id: 'h1', type: 'test.event', source: '/test' }

describe('a rejected message that AMQP headers have no room for', () => {
  it.each([
    ['an attribute of 70 kB', { ...whole, note: 'n'.repeat(70_000) }],
    ['an attribute with a name of 300 bytes', { ...whole, ['n'.repeat(300)]: '1' }],
    ['an id of 70 kB', { ...whole, id: 'i'.repeat(70_000) }],
  ])('is in the dead letter as an envelope: %s', async (_title, sent) => {
    await using world = await openWorld()
    const [queue, dead] = [await world.queue(), await world.queue()]
    world.admin.sendToQueue(queue, Buffer.from(JSON.stringify({ ...sent, data: { n: 1 } })), structured)
    const deadLetter = { publisher: world.publisher(), destination: dead }
    const message = await pull(open(world.source(queue, { deadLetter })))
    expect(await message.reject(failure)).toBe(true)

    const letter = await pull(open(world.source(dead)))
    await letter.ack()
    expect(letter.attributes).toMatchObject({ type: 'ackord.deadletter', deadletterform: 'envelope' })
    const envelope = JSON.parse(Buffer.from(letter.data).toString())
    expect(envelope).toMatchObject({ reason: 'it makes no sense', data_base64: Buffer.from('{"n":1}').toString('base64') })
    for (const [name, value] of Object.entries(sent)) expect(envelope.attributes).toContainEqual({ name, value })
    expect(await world.ready(queue)).toBe(0)
    expect(world.logger.at('error')).toEqual([])
  })
})

describe('a message that the dead letter refuses in every form', () => {
  const publisher = { publish: async () => [{ ok: false, error: failure, permanent: true } as const] }

  it('goes to the dead-letter exchange that the queue was declared with', async () => {
    await using world = await openWorld()
    const [queue, parked] = [world.name(), await world.queue()]
    const declare = { arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': parked } }
    await declareTopology(world.connection, { queues: { [queue]: declare } })
    await world.fill(queue, ['m1'])
    const messages = open(world.source(queue, { declare, deadLetter: { publisher, destination: 'nowhere' } }))
    expect(await (await pull(messages)).reject(failure)).toBe(true)
    const kept = await pull(open(world.source(parked)))
    expect(kept.id).toBe('m1')
    await kept.ack()
  })

  it('stays in its queue, and is held back, without one', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['m1', 'm2'])
    const messages = open(world.source(queue, { deadLetter: { publisher, destination: 'nowhere' } }))
    await expect((await pull(messages)).reject(failure)).rejects.toThrow(/every smaller form/)
    const next = await pull(messages)
    expect(next.id).toBe('m2')
    await next.ack()
    expect(world.logger.at('error').map(({ text }) => text)).toEqual([expect.stringContaining('delivered again in ten minutes')])
    await messages.return?.()
    expect((await pull(open(world.source(queue)))).id).toBe('m1')
  })
})

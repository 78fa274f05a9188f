import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startMosquitto } from '../../../../scripts/servers/index.mjs'
import { open, openWorld, pull, type World } from '../support/world.ts'

const maxPacketSize = 100_000
const whole = { specversion: '1.0', id: 'h1', type: 'test.event', source: '/test' }
const failure = new Error(`it makes no sense ${'at all '.repeat(200)}`)

let server: Awaited<ReturnType<typeof startMosquitto>>

beforeAll(async () => {
  server = await startMosquitto({ settings: [`max_packet_size ${maxPacketSize}`] })
})
afterAll(() => server.stop())

/** A source with a dead letter, and the iteration of the dead letter. */
async function openWithDeadLetter(world: World) {
  const [topic, dead] = [world.name(), world.name()]
  const letters = open(world.source(dead, {}, await world.member(dead)))
  const deadLetter = { publisher: world.publisher(), destination: dead }
  const messages = open(world.source(topic, { deadLetter }, await world.member(topic)))
  return { topic, messages, letters }
}

describe.concurrent('a message of another producer', () => {
  it('that claims to be a structured event and is none is in the dead letter, and the next one is delivered', async () => {
    await using world = await openWorld({ server: server.url })
    const { topic, messages, letters } = await openWithDeadLetter(world)
    const next = pull(messages)
    for (const text of ['{', '[]', '{"specversion":"1.0","data_base64":7}']) {
      await world.admin.publishAsync(topic, text, { qos: 1, properties: { contentType: 'application/cloudevents+json' } })
      const letter = await pull(letters)
      expect(Buffer.from(letter.data).toString()).toBe(text)
      expect(letter.attributes).toMatchObject({ deadletterreason: expect.stringContaining('cannot be read'), deadletterdestination: topic })
      await letter.ack()
    }
    await world.admin.publishAsync(topic, 'fine', { qos: 1 })

    expect(Buffer.from((await next).data).toString()).toBe('fine')
  })

  it('has any user properties: repeated, without a name, with names of objects, by the hundred', async () => {
    await using world = await openWorld({ server: server.url })
    const { topic, messages } = await openWithDeadLetter(world)
    const many = Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`name${index}`, 'x']))
    const userProperties = {
      ...many,
      id: ['a', 'b'],
      '': 'nameless',
      constructor: 'c',
      toString: 't',
      note: '%zz',
      'ackord-encoded': ['note', 'absent'],
    }
    const correlationData = Buffer.from([0, 255])
    const properties = { userProperties, correlationData, responseTopic: 'answers', payloadFormatIndicator: true }
    await world.admin.publishAsync(topic, Buffer.from([0xff, 0xfe]), {
      qos: 1,
      properties: { ...properties, payloadFormatIndicator: false },
    })

    const { id, data, attributes } = await pull(messages)

    expect(id).toBe('a')
    expect([...data]).toEqual([0xff, 0xfe])
    expect(Object.entries(attributes).sort()).toEqual(
      Object.entries({ ...many, id: 'a', constructor: 'c', toString: 't', note: '%zz', source: topic }).sort(),
    )
  })

  it.each([
    ['its bytes stay whole, without the note', { ...whole, note: 'n'.repeat(2000) }, 'bytes', 1],
    ['its bytes are cut where nothing else can be left out', {}, 'envelope', 0.4],
  ])('that is rejected and leaves no room for the reason is in the dead letter: %s', async (_title, attributes, form, share) => {
    await using world = await openWorld({ server: server.url })
    const { topic, messages, letters } = await openWithDeadLetter(world)
    const header = Object.entries(attributes).reduce((size, [name, value]) => size + name.length + value.length + 5, topic.length + 11)
    const userProperties = Object.keys(attributes).length > 0 && { userProperties: attributes }
    const data = Buffer.alloc(maxPacketSize - header, 7)
    await world.admin.publishAsync(topic, data, { qos: 1, properties: { ...userProperties } })

    const message = await pull(messages)
    expect(message.data.byteLength).toBe(data.byteLength)
    expect(await message.reject(failure)).toBe(true)

    const letter = await pull(letters)
    await letter.ack()
    expect(letter.attributes['deadletterform']).toBe(form)
    const kept = form === 'bytes' ? letter.data : Buffer.from(JSON.parse(Buffer.from(letter.data).toString()).data_base64, 'base64')
    expect(kept.byteLength).toBeGreaterThanOrEqual(data.byteLength * share)
    expect(world.logger.at('error')).toEqual([])
  })

  it('that the dead letter refuses in every form stays in the session, and holds no later message back from its handler', async () => {
    await using world = await openWorld({ server: server.url })
    const topic = world.name()
    const clientId = world.name()
    const client = await world.member(topic, { clientId })
    const publisher = { publish: async () => [{ ok: false, error: failure, permanent: true } as const] }
    const source = world.source(topic, { deadLetter: { publisher, destination: 'nowhere' } }, client)
    const messages = open(source)
    await world.fill(topic, ['bad', 'good'])

    await expect((await pull(messages)).reject(failure)).rejects.toThrow(/every smaller form/)
    await (await pull(messages)).ack()
    await source.close()
    await client.endAsync()

    expect((await pull(open(world.source(topic, {}, world.client({ clientId }))))).id).toBe('bad')
  })
})

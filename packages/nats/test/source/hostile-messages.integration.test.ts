import { headers } from '@nats-io/transport-node'
import { describe, expect, it } from 'vitest'
import { open, openWorld, pull, type World } from '../support/world.ts'

const failure = new Error(`it makes no sense ${'at all '.repeat(200)}`)

async function sendRaw(world: World, subject: string, data: Uint8Array, attributes: Readonly<Record<string, string>>): Promise<void> {
  const own = headers()
  for (const [name, value] of Object.entries(attributes)) own.append(`ce-${name}`, value)
  await world.admin.request(subject, data, { timeout: 5000, headers: own })
}

const whole = { specversion: '1.0', id: 'h1', type: 'test.event', source: '/test' }

describe('a rejected message that has no room for the reason within max_payload', () => {
  it.each([
    ['its bytes stay whole, without the note', { ...whole, note: 'n'.repeat(500) }, 'bytes', 1],
    ['its bytes are cut where nothing else can be left out', {}, 'envelope', 0.7],
  ])('is in the dead letter: %s', async (_title, attributes, form, share) => {
    await using world = await openWorld()
    const [stream, dead] = [await world.stream(), await world.stream()]
    const limit = world.connection.info?.max_payload ?? 0
    const header = Object.entries(attributes).reduce((size, [name, value]) => size + name.length + value.length + 7, 12)
    const data = new Uint8Array(limit - (Object.keys(attributes).length === 0 ? 0 : header + 50)).fill(7)
    if (Object.keys(attributes).length === 0) await world.admin.request(stream, data, { timeout: 5000 })
    else await sendRaw(world, stream, data, attributes)

    const deadLetter = { publisher: world.publisher(), destination: dead }
    const message = await pull(open(world.source(stream, { deadLetter })))
    expect(message.data.byteLength).toBe(data.byteLength)
    expect(await message.reject(failure)).toBe(true)

    const letter = await pull(open(world.source(dead)))
    await letter.ack()
    expect(letter.attributes['deadletterform']).toBe(form)
    const kept = form === 'bytes' ? letter.data : Buffer.from(JSON.parse(Buffer.from(letter.data).toString()).data_base64, 'base64')
    expect(kept.byteLength).toBeGreaterThanOrEqual(data.byteLength * share)
    expect(world.logger.at('error')).toEqual([])
  })
})

describe('a message that the dead letter refuses in every form', () => {
  const publisher = { publish: async () => [{ ok: false, error: failure, permanent: true } as const] }

  it('is terminated and stays in a stream that keeps messages', async () => {
    await using world = await openWorld()
    const stream = await world.stream()
    await world.fill(stream, ['m1'])
    const messages = open(world.source(stream, { deadLetter: { publisher, destination: 'nowhere' } }))
    expect(await (await pull(messages)).reject(failure)).toBe(true)
    await messages.return?.()
    expect((await world.manager.streams.info(stream)).state.messages).toBe(1)
    const [line] = world.logger.at('error')
    expect(line?.fields).toMatchObject({ stream, sequence: expect.anything() })
  })

  it('is delivered again after ten minutes by a work queue, which would delete it', async () => {
    await using world = await openWorld()
    const stream = await world.stream({ retention: 'workqueue' })
    await world.fill(stream, ['m1', 'm2'])
    const messages = open(world.source(stream, { deadLetter: { publisher, destination: 'nowhere' } }))
    await expect((await pull(messages)).reject(failure)).rejects.toThrow(/every smaller form/)
    const next = await pull(messages)
    expect(next.id).toBe('m2')
    await next.ack()
    await messages.return?.()
    expect((await world.manager.streams.info(stream)).state.messages).toBe(1)
  })
})

import type { RawMessage } from '@ackord/core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startKafka } from '../../../../../scripts/servers/index.mjs'
import { events, never, open, openWorld, pull, pullMany, until } from '../../support/world.ts'

let server: Awaited<ReturnType<typeof startKafka>>

beforeAll(async () => {
  server = await startKafka()
}, 150_000)
afterAll(() => server?.stop())

it.each([
  ['is killed', () => server.kill()],
  ['is stopped', () => Promise.resolve()],
])(
  'loses no confirmed message when the broker %s and starts again',
  async (_, end) => {
    await using world = await openWorld(server)
    const [topic, group] = [await world.topic(), world.group()]
    const publisher = world.publisher()
    const messages = open(world.source(topic, group))
    const confirmed = new Set<string | undefined>()
    const seen = new Set<string | undefined>()
    const stop = new AbortController()
    const publishing = (async () => {
      for (let round = 0; !stop.signal.aborted; round += 1) {
        const batch = events(10, `r${round}-`)
        const results = await publisher.publish(topic, batch, { signal: never })
        for (const [index, { ok }] of results.entries()) if (ok) confirmed.add(batch[index]?.id)
      }
    })()
    const reading = (async () => {
      for (;;) {
        const message = await pull(messages)
        seen.add(message.id)
        // An ack that is lost with its connection repeats the message.
        await message.ack().catch(() => {})
      }
    })().catch(() => {})
    await until(() => seen.size >= 50)
    await end()
    await server.restart()
    const before = confirmed.size
    await until(() => confirmed.size >= before + 50)
    stop.abort()
    await publishing
    await until(() => [...confirmed].every((id) => seen.has(id)))
    await messages.return?.()
    await reading
  },
  300_000,
)

it('a group continues after its committed offsets when the broker starts again', async () => {
  await using world = await openWorld(server)
  const [topic, group] = [await world.topic(), world.group()]
  await world.fill(topic, events(40))
  const first = open(world.source(topic, group))
  const acked = await pullMany(first, 25)
  for (const message of acked) await message.ack()
  await first.return?.()
  await server.kill()
  await server.restart()

  const idsOf = (messages: readonly RawMessage[]) => messages.map(({ id }) => id)
  const rest = await pullMany(open(world.source(topic, group)), 15)
  expect(new Set([...idsOf(acked), ...idsOf(rest)])).toEqual(new Set(idsOf(events(40))))
}, 300_000)

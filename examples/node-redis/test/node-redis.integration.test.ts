import { randomUUID } from 'node:crypto'
import { createClient } from 'redis'
import { expect, it } from 'vitest'
import { startExample } from '../../support/example.ts'
import { until } from '../../support/until.ts'

const main = new URL('../src/main.ts', import.meta.url)
const redisUrl = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'

it('stores an order once, publishes its event, and leaves nothing of a command that is refused', async () => {
  const tag = `example-${randomUUID().slice(0, 8)}`
  const [commands, events] = [`${tag}-orders`, `${tag}-events`]
  await using redis = await openRedis(tag)
  const { client } = redis
  const env = { REDIS_URL: redisUrl, TAG: tag, COMMANDS: commands, EVENTS: events }
  await using example = await startExample({ main, env, ready: /Waiting for orders/ })
  await client.set(`{${tag}}:stock:lamp`, '10')

  const send = async (id: string, order: object) => {
    const attributes = { id, type: 'order.place', source: '/test', specversion: '1.0', datacontenttype: 'application/json' }
    return await client.xAdd(commands, '*', { ...attributes, data: JSON.stringify(order) })
  }
  const order = { id: 'o-1', product: 'lamp', quantity: 4 }
  await send('c-2', { id: 'o-2', product: 'lamp', quantity: 11 })
  let last = ''
  // The same command several times, as an unsure broker or client would send it.
  for (let times = 0; times < 5; times += 1) last = await send('c-1', order)
  await until(async () => {
    const [group] = await client.xInfoGroups(commands)
    return group?.['last-delivered-id'] === last && Number(group.pending) === 0
  })
  await until(async () => (await client.xLen(events)) === 1)
  expect(await example.stop()).toBe(0)

  expect({ ...(await client.hGetAll(`{${tag}}:order:o-1`)) }).toEqual({ product: 'lamp', quantity: '4' })
  expect(await client.get(`{${tag}}:stock:lamp`)).toBe('6')
  const published = (await client.xRange(events, '-', '+')) ?? []
  expect(published.map(({ message }) => [message['type'], JSON.parse(String(message['data']))])).toEqual([['order.placed', order]])
  // The rejected command has left nothing but its dead letter.
  expect(await client.exists(`{${tag}}:order:o-2`)).toBe(0)
  const dead = (await client.xRange(`{${commands}}:dead`, '-', '+')) ?? []
  expect(dead.map(({ message }) => [message['id'], message['deadletterreason']])).toEqual([['c-2', "There are not 11 of 'lamp'."]])
})

/** Removes all keys with the tag at the end. */
async function openRedis(tag: string) {
  const client = createClient({ url: redisUrl })
  await client.connect()
  return {
    client,
    async [Symbol.asyncDispose]() {
      for await (const keys of client.scanIterator({ MATCH: `*${tag}*`, COUNT: 1000 })) if (keys.length > 0) await client.unlink(keys)
      client.destroy()
    },
  }
}

import { silentLogger } from '@ackord/core'
import { deferred } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { idempotentServers, sendOrder } from '../support/idempotent-servers.ts'
import { type OpenedShop, type Order, shopKinds } from '../support/idempotent-stores.ts'

const lamp: Order = { product: 'lamp' }

async function open(kind: string, framework: string, during: (shop: OpenedShop) => Promise<void> = async () => {}) {
  const shop = await shopKinds[kind]?.open()
  const start = idempotentServers[framework]
  if (shop === undefined || start === undefined) throw new Error(`There is no ${kind} or no ${framework}.`)
  let number = 0
  const server = await start(
    shop.store,
    async (order) => {
      // Sent by the test itself.
      await shop.place(order as Order)
      await during(shop)
      number += 1
      return { status: 201, content: { number, order } }
    },
    { logger: silentLogger },
  )
  return {
    url: server.url,
    counts: async () => ({ orders: await shop.orders(), events: await shop.events() }),
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]()
      await shop[Symbol.asyncDispose]()
    },
  }
}

describe.each(Object.keys(shopKinds))('on %s', (kind) => {
  describe.each(Object.keys(idempotentServers))('with %s', (framework) => {
    it('a request that is sent twice writes one order and one event, and both get the same bytes', async () => {
      await using world = await open(kind, framework)
      const [first, second] = [await sendOrder(world.url, lamp), await sendOrder(world.url, lamp)]

      expect(first).toMatchObject({ status: 201, body: '{"number":1,"order":{"product":"lamp"}}', isReplayed: false })
      expect(second).toMatchObject({ status: 201, body: first.body, isReplayed: true })
      expect(second.headers.get('content-type')).toBe(first.headers.get('content-type'))
      expect((await sendOrder(world.url, { product: 'chair' })).status).toBe(422)
      expect(await world.counts()).toEqual({ orders: 1, events: 1 })
    })

    it('of twenty requests at the same time one is carried out, and the others get 409 or its answer', async () => {
      await using world = await open(kind, framework)
      const answers = await Promise.all(Array.from({ length: 20 }, () => sendOrder(world.url, lamp)))
      const statuses = answers.map(({ status }) => status)

      expect(answers.filter(({ status, isReplayed }) => status === 201 && !isReplayed)).toHaveLength(1)
      expect(statuses.every((status) => status === 201 || status === 409)).toBe(true)
      expect(await sendOrder(world.url, lamp)).toMatchObject({ status: 201, isReplayed: true })
      expect(await world.counts()).toEqual({ orders: 1, events: 1 })
    })

    it('a second request gets 409 at once while the first one is running', async () => {
      const [begun, gate] = [deferred(), deferred()]
      await using world = await open(kind, framework, async () => {
        begun.resolve()
        await gate.promise
      })
      const first = sendOrder(world.url, lamp)
      await begun.promise
      const meanwhile = await sendOrder(world.url, lamp)
      gate.resolve()

      expect([meanwhile.status, meanwhile.headers.get('retry-after')]).toEqual([409, '1'])
      expect((await first).status).toBe(201)
    })

    it('a handler that throws leaves nothing, and the request is carried out when it is sent again', async () => {
      let fails = true
      await using world = await open(kind, framework, async () => {
        if (fails) throw new Error('out of order')
      })
      expect((await sendOrder(world.url, lamp)).status).toBe(500)
      expect(await world.counts()).toEqual({ orders: 0, events: 0 })
      fails = false

      expect(await sendOrder(world.url, lamp)).toMatchObject({ status: 201, isReplayed: false })
      expect(await world.counts()).toEqual({ orders: 1, events: 1 })
    })

    it('another user with the same key gets an answer of their own', async () => {
      await using world = await open(kind, framework)
      const bodies: string[] = []
      for (const user of ['ann', 'bob', 'ann']) bodies.push((await sendOrder(world.url, lamp, { user })).body)

      expect(bodies.map((body) => JSON.parse(body).number)).toEqual([1, 2, 1])
      expect(await world.counts()).toEqual({ orders: 2, events: 2 })
    })
  })
})

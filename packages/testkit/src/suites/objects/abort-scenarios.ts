import assert from 'node:assert/strict'
import { assertAbsent, assertBytes, assertListed, assertStored, bytesOf, get, manyBytes, type ObjectScenario, put } from './object-world.ts'

export const abortScenarios: readonly ObjectScenario[] = [
  {
    name: 'an aborted signal rejects with its reason, and nothing is stored',
    async run(open) {
      await using world = await open()
      await put(world, 'present', 'here')
      const reason = new Error('the codecs took too long')
      const signal = AbortSignal.abort(reason)
      await assert.rejects(world.store.put('absent', bytesOf('bytes'), { signal }), reason)
      await assert.rejects(world.store.put('present', bytesOf('bytes'), { signal }), reason)
      await assert.rejects(world.store.get('present', { signal }), reason)
      await assertAbsent(world, 'absent')
      await assertStored(world, 'present', 'here')
      await assertListed(world, ['present'])
    },
  },
  {
    name: 'a put that is aborted while it runs leaves the whole object or none',
    async run(open) {
      await using world = await open()
      const bytes = manyBytes(2_000_000)
      const reason = new Error('the codecs took too long')
      const abort = new AbortController()
      const putting = Array.from({ length: 3 }, (_, index) => world.store.put(`orders/${index}`, bytes, { signal: abort.signal }))
      abort.abort(reason)
      const results = await Promise.allSettled(putting)
      for (const [index, result] of results.entries()) {
        const key = `orders/${index}`
        if (result.status === 'rejected') assert.equal(result.reason, reason)
        const found = await get(world, key)
        if (found !== undefined || result.status === 'fulfilled') assertBytes(found, bytes, key)
      }
      for (const index of results.keys()) await put(world, `orders/${index}`, 'again')
      await assertListed(world, ['orders/0', 'orders/1', 'orders/2'])
    },
  },
  {
    name: 'a get that is aborted while it runs returns the whole object or rejects with the reason',
    async run(open) {
      await using world = await open()
      const bytes = manyBytes(2_000_000)
      await put(world, 'orders/1', bytes)
      const reason = new Error('the codecs took too long')
      const abort = new AbortController()
      const getting = world.store.get('orders/1', { signal: abort.signal })
      abort.abort(reason)
      const [result] = await Promise.allSettled([getting])
      if (result.status === 'rejected') assert.equal(result.reason, reason)
      else assertBytes(result.value, bytes, 'orders/1')
      await assertStored(world, 'orders/1', bytes)
    },
  },
]

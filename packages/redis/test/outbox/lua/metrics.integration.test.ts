import type { Metrics } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { LuaWorld, lease, published, records } from './lua-world.ts'

type Observed = readonly [name: string, value: number, labels: Readonly<Record<string, unknown>>]

/** Metrics that record every observation. */
function observing(): { readonly metrics: Metrics; of(name: string): readonly Observed[] } {
  const observed: Observed[] = []
  return {
    metrics: { count() {}, gauge() {}, observe: (name, value, labels) => void observed.push([name, value, labels]) },
    of: (wanted) => observed.filter(([name]) => name === wanted),
  }
}

const storedUntilSent = 'ackord.outbox.delivery_duration'

describe('R44: distributions', () => {
  it.each([true, false])(
    'how long it took from storing to sent is observed once for each that is sent, kept or not: %s',
    async (retain) => {
      await using world = await LuaWorld.open()
      const { metrics, of } = observing()
      const store = world.another({ retain, metrics })
      await store.enqueue(records(3))
      await world.advance(1500)
      const [first, second, third] = await store.claim({ limit: 3, lease })
      if (first === undefined || second === undefined || third === undefined) throw new Error('Expected three stored records.')
      const failed = { id: third.id, token: third.token, result: 'failed', error: 'down', retryAfter: 0 } as const
      const stale = { ...second, token: 'stale', result: 'published' } as const
      expect(await store.settle([published(first), stale, failed])).toEqual(['applied', 'lost', 'applied'])
      expect(of(storedUntilSent)).toHaveLength(1)
      expect(of(storedUntilSent)[0]?.[1]).toBeGreaterThanOrEqual(1500)

      await world.advance(500)
      await store.settle([published(second)])
      expect(of(storedUntilSent)).toHaveLength(2)
      expect(of(storedUntilSent)[1]?.[1]).toBeGreaterThanOrEqual(2000)
    },
  )

  it('observes the duration of each script by its name, also if it fails', async () => {
    await using world = await LuaWorld.open()
    const { metrics, of } = observing()
    const store = world.another({ metrics })
    const scripts = () => of('ackord.outbox.script_duration').map(([, , labels]) => labels['script'])
    await store.enqueue(records(1))
    await store.claim({ limit: 1, lease })
    expect(scripts()).toEqual(['enqueue', 'claim'])
    expect(of('ackord.outbox.script_duration').every(([, duration]) => duration >= 0)).toBe(true)

    await world.command('DEL', world.key('ready'))
    await world.command('SET', world.key('ready'), 'no index')
    await expect(store.claim({ limit: 1, lease })).rejects.toThrow('WRONGTYPE')
    expect(scripts()).toEqual(['enqueue', 'claim', 'claim'])
  })
})

import { describe, expect, it } from 'vitest'
import type { KeyRange, KeyStatements, KeysRead, KeysWalked } from '../../src/contract/ownership-statements.ts'
import { KeyReader } from '../../src/ordering/key-reader.ts'

const nothing: KeysRead = { ready: [], last: undefined, plain: false, due: [], dueAfter: 0, more: false }
const fresh = (...keys: string[]): KeysRead => ({
  ...nothing,
  ready: keys.map((key, index) => ({ partition: 1, key, seq: String(index + 1) })),
})

/** A reader on a clock that each walk advances by `took`, and the ranges of the walks. */
function openReader({ read = nothing, took = 0, visited = 0 }: { read?: KeysRead; took?: number; visited?: number } = {}) {
  const world = { now: 0, read, took, visited, reads: 0, walks: [] as KeyRange[] }
  const statements: KeyStatements = {
    async readKeys({ positions }) {
      world.reads += 1
      return positions.map(() => world.read)
    },
    async walkKeys({ ranges }) {
      world.walks.push(...ranges)
      world.now += world.took
      return ranges.map((): KeysWalked => ({ keys: [], last: undefined, visited: world.visited, more: false }))
    },
  }
  const reader = new KeyReader(statements, () => world.now)
  const next = (options: { readonly first?: boolean; readonly limit?: number } = {}) =>
    reader.next({
      limit: 10,
      window: 100,
      partitions: [1],
      behindParked: 'given',
      keysUpTo: undefined,
      destinations: ['events'],
      first: true,
      held: [],
      ...options,
    })
  return { world, reader, next }
}

describe('KeyReader', () => {
  it('does not walk over all keys while records are read, except every few seconds', async () => {
    const { world, next } = openReader({ read: fresh('a') })
    for (; world.now < 2900; world.now += 100) expect((await next()).keys).toHaveLength(1)
    expect(world.walks).toHaveLength(0)
    for (; world.now < 6500; world.now += 100) await next()
    expect(world.walks).toHaveLength(2)
  })

  it('walks if it has no keys, if those it had were empty, and beside many records of few keys', async () => {
    const idle = openReader()
    expect(await idle.next()).toMatchObject({ keys: [], any: false })
    expect(idle.world.walks).toHaveLength(1)
    const blocked = openReader({ read: fresh('a', 'b') })
    await blocked.next()
    await blocked.next({ first: false })
    expect(blocked.world.walks).toHaveLength(0)
    blocked.reader.empty((await blocked.next()).keys)
    await blocked.next({ first: false })
    expect(blocked.world.walks).toHaveLength(1)
    const hot = openReader({ read: { ...fresh('hot'), more: true } })
    await hot.next()
    expect(hot.world.walks).toHaveLength(1)
  })

  it('reads no more records while it has enough keys, and only once per claim', async () => {
    const { world, next } = openReader({ read: fresh('a', 'b', 'c') })
    await next({ limit: 3 })
    await next({ limit: 3 })
    expect(world.reads).toBe(1)
    await next({ limit: 10, first: false })
    expect(world.reads).toBe(1)
    await next({ limit: 10 })
    expect(world.reads).toBe(2)
  })

  it('walks over fewer partitions when that is slow, and pauses in proportion to its duration', async () => {
    const { world, next } = openReader({ took: 400 })
    for (; world.now < 120_000; world.now += 50) await next()
    const share = (world.walks.length * 400) / world.now
    expect(share).toBeLessThan(0.1)
    const last = world.walks.at(-1) as KeyRange
    expect(last.before - last.after.partition).toBe(1)
    world.took = 1
    for (; world.now < 150_000; world.now += 50) await next()
    expect(world.walks.at(-1)).toMatchObject({ after: { partition: 0, key: '' }, before: 256 })
  })

  it('does not count visited keys as slow', async () => {
    const { world, next } = openReader({ took: 400, visited: 4000 })
    for (let count = 0; count < 5; count += 1) await next()
    expect(world.walks).toHaveLength(5)
    expect(world.walks.every(({ before }) => before === 256)).toBe(true)
  })

  it('reports ranges without records without a key', async () => {
    const { world, next } = openReader({ read: { ...fresh('a'), last: '50' } })
    expect((await next()).unmixed).toEqual([{ destination: 'events', after: 0n, to: 50n }])
    world.read = { ...fresh('a'), last: '60', plain: true }
    expect((await next()).unmixed).toEqual([])
  })
})

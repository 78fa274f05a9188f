import assert from 'node:assert/strict'
import type { ProcessQuery, ProcessRecord } from '@ackord/outbox'
import {
  assertLog,
  begun,
  changed,
  event,
  found,
  keep,
  type ProcessScenario,
  type ProcessWorld,
  stateOf,
  testProcess,
  timeout,
} from './process-world.ts'

export const adminScenarios: readonly ProcessScenario[] = [
  {
    name: 'operators list instances page by page, by process and phase',
    basic: true,
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      const other = testProcess(world, { name: 'other' })
      const ids = ['a', 'b', 'c', 'd', 'e']
      for (const of of ids) await process.deliver(event(begun, `e-${of}`, of === 'c' ? ['complete'] : [], { of }))
      await other.deliver(event(begun, 'e-a', [], { of: 'a' }))
      const all = await listed(world, { limit: 2 })
      assert.deepEqual(all.map(nameOf), ['other a', ...ids.map((id) => `test ${id}`)])
      assert.deepEqual(
        (await listed(world, { process: 'test' })).map(nameOf),
        ids.map((id) => `test ${id}`),
      )
      assert.deepEqual((await listed(world, { process: 'test', phase: 'finished', limit: 2 })).map(nameOf), ['test c'])
      assert.deepEqual((await listed(world, { phase: 'running' })).map(nameOf), ['other a', 'test a', 'test b', 'test d', 'test e'])
      assert.deepEqual(await listed(world, { idleFor: 3_600_000 }), [])
      const [first] = await listed(world, { process: 'other' })
      assert.deepEqual(first, await world.store.get({ process: 'other', id: 'a' }))
      assert.deepEqual(JSON.parse(first?.state ?? ''), { log: ['e-a, new'], text: '' })
    },
  },
  {
    name: 'an instance that an operator ends keeps its state and ignores events and timeouts',
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      const key = { process: 'test', id: 'i1' }
      assert.equal(await world.store.end(key, { keep }), false)
      await process.deliver(event(begun, 'e1', ['set']))
      const { version } = await found(world)
      assert.equal(await world.store.end(key, { keep }), true)
      assert.equal(await world.store.end(key, { keep }), false)
      const ended = await found(await world.another())
      assert.deepEqual([ended.phase, ended.timeouts, ended.version > version], ['finished', {}, true])
      await process.deliver(event(changed, 'e2'))
      await process.deliver(await timeout(world))
      await assertLog(world, ['e1, new'])
      await world.advance(keep + 1)
      assert.equal(await stateOf(world), undefined)
      assert.deepEqual(await listed(world, {}), [])
    },
  },
  {
    name: 'the cleanup deletes forgotten instances, and no others',
    async run(open) {
      await using world = await open()
      if (world.clean === undefined) return 'they expire by themselves'
      const process = testProcess(world)
      await process.deliver(event(begun, 'e1', [], { of: 'running' }))
      for (const of of ['one', 'two']) await process.deliver(event(begun, `e-${of}`, ['complete'], { of }))
      assert.equal(await world.clean(), 0)
      await world.advance(keep + 1)
      await process.deliver(event(begun, 'e-late', ['complete'], { of: 'late' }))
      assert.equal(await world.clean(), 2)
      assert.deepEqual((await listed(world, {})).map(nameOf), ['test late', 'test running'])
      await process.deliver(event(begun, 'e-again', [], { of: 'one' }))
      await assertLog(world, ['e-again, new'], 'one')
      return undefined
    },
  },
]

function nameOf({ process, id }: ProcessRecord): string {
  return `${process} ${id}`
}

/** All pages, sorted by process and id: the order is the store's. */
async function listed(world: ProcessWorld, query: ProcessQuery): Promise<readonly ProcessRecord[]> {
  const all: ProcessRecord[] = []
  let after: string | undefined
  do {
    const page = await world.store.list({ ...query, after })
    all.push(...page.processes)
    after = page.next
  } while (after !== undefined)
  return all.sort((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1))
}

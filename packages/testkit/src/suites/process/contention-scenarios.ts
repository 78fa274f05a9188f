import assert from 'node:assert/strict'
import { isAckordError } from '@ackord/core'
import {
  assertLog,
  begun,
  changed,
  event,
  found,
  inTransaction,
  type ProcessScenario,
  sentBy,
  stateOf,
  testProcess,
  timeout,
} from './process-world.ts'

export const contentionScenarios: readonly ProcessScenario[] = [
  {
    name: 'events that arrive at once are all handled, one after the other',
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      const peers = [world, await world.another()]
      await process.deliver(event(begun, 'e0'))
      const events = Array.from({ length: 8 }, (_, index) => event(changed, `e${index + 1}`, ['send']))
      await Promise.all(events.map((one, index) => process.deliver(one, peers[index % 2])))
      const { log = [] } = (await stateOf(world)) ?? {}
      const expected = events.map(({ id }) => id).toSorted()
      assert.deepEqual(log.slice(1).toSorted(), expected, 'each event must be in the state once')
      assert.deepEqual((await sentBy(world)).toSorted(), expected)
      assert.equal((await found(world)).version, 9)
    },
  },
  {
    name: 'of several beginnings at once, one begins the process and the others are events of it',
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      const peers = [world, await world.another()]
      for (let round = 0; round < 3; round += 1) {
        const of = `i${round}`
        const names = [`a${round}`, `b${round}`, `c${round}`, `d${round}`]
        await Promise.all(names.map((id, index) => process.deliver(event(begun, id, ['send'], { of }), peers[index % 2])))
        const { log = [] } = (await stateOf(world, of)) ?? {}
        assert.deepEqual(log.map((name) => name.replace(', new', '')).toSorted(), names)
        assert.deepEqual(
          log.map((name) => name.endsWith(', new')),
          [true, false, false, false],
        )
      }
      assert.equal((await sentBy(world)).length, 12)
    },
  },
  {
    name: 'a message that is delivered twice at once is one event',
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      const other = await world.another()
      await process.deliver(event(begun, 'e0'))
      const names: string[] = []
      for (let round = 1; round <= 5; round += 1) {
        const one = event(changed, `e${round}`, ['send'])
        names.push(`e${round}`)
        await Promise.all([process.deliver(one), process.deliver(one, other)])
      }
      await assertLog(world, ['e0, new', ...names])
      assert.deepEqual(await sentBy(world), names)
    },
  },
  {
    name: 'a change that does not follow the version before it conflicts, and leaves nothing',
    async run(open) {
      await using world = await open()
      const key = { process: 'test', id: 'i1' }
      await testProcess(world).deliver(event(begun, 'e1'))
      const before = await found(world)
      for (const version of [1, 3]) {
        const change = { version, begins: version === 1, state: '{"log":["stale"]}', stateVersion: 1, timeouts: {}, keep: undefined }
        const saving = inTransaction(world, `m${version}`, (context) => world.store.save(key, change, context))
        await assert.rejects(saving, (error) => isAckordError(error, 'ACKORD_TRANSACTION_CONFLICT') && error.retryable)
      }
      const other = { process: 'test', id: 'absent' }
      const change = { version: 2, begins: false, state: '{}', stateVersion: 1, timeouts: {}, keep: undefined }
      const saving = inTransaction(world, 'm2', (context) => world.store.save(other, change, context))
      await assert.rejects(saving, (error) => isAckordError(error, 'ACKORD_TRANSACTION_CONFLICT'))
      assert.deepEqual(await found(world), before)
      assert.equal(await world.store.get(other), undefined)
    },
  },
  {
    name: 'of a timeout and the event that cancels it, arriving at once, both are handled or only the event',
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      const other = await world.another()
      const outcomes = new Set<string>()
      for (let round = 0; round < 5; round += 1) {
        const of = `i${round}`
        await process.deliver(event(begun, `b${round}`, ['set'], { of }))
        const due = await timeout(world, round)
        const paid = event(changed, `c${round}`, ['cancel', 'complete'], { of })
        await Promise.all(
          round % 2 === 0 ? [process.deliver(due), process.deliver(paid, other)] : [process.deliver(paid, other), process.deliver(due)],
        )
        const { log = [] } = (await stateOf(world, of)) ?? {}
        const reactions = log.slice(1).join(' ')
        assert.ok(reactions === `c${round}` || reactions === `timeout c${round}`, `the instance reacted to ${reactions}`)
        outcomes.add(reactions.startsWith('timeout') ? 'both' : 'the event')
        assert.equal((await found(world, of)).phase, 'finished')
      }
      return [...outcomes].join(', ')
    },
  },
]

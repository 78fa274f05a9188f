import assert from 'node:assert/strict'
import {
  assertLog,
  begun,
  changed,
  event,
  found,
  keep,
  type ProcessScenario,
  sentBy,
  testProcess,
  timeout,
  timeoutsOf,
} from './process-world.ts'

export const timeoutScenarios: readonly ProcessScenario[] = [
  {
    name: 'a timeout is stored as a delayed message to the consumer of the process, and its step is called once',
    basic: true,
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      await process.deliver(event(begun, 'e1', ['set']))
      const due = await timeout(world)
      assert.equal((await timeoutsOf(world)).length, 1)
      await process.deliver(due)
      await process.deliver(due, await world.another())
      await assertLog(world, ['e1, new', 'timeout'])
      assert.deepEqual(await sentBy(world), ['timeout'])
      assert.deepEqual((await found(world)).timeouts, {})
    },
  },
  {
    name: 'a cancelled timeout is ignored',
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      await process.deliver(event(begun, 'e1', ['set']))
      await process.deliver(event(changed, 'e2', ['cancel']))
      await process.deliver(await timeout(world))
      await assertLog(world, ['e1, new', 'e2'])
      assert.deepEqual(
        process.ignored.map(({ reason }) => reason),
        ['timeout'],
      )
    },
  },
  {
    name: 'a timeout that is set again replaces the one before',
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      await process.deliver(event(begun, 'e1', ['set']))
      await process.deliver(event(changed, 'e2', ['set', 'set']))
      assert.equal((await timeoutsOf(world)).length, 2)
      await process.deliver(await timeout(world, 0))
      await assertLog(world, ['e1, new', 'e2'])
      await process.deliver(await timeout(world, 1))
      await assertLog(world, ['e1, new', 'e2', 'timeout'])
    },
  },
  {
    name: 'a timeout that is due after its process has finished is ignored, also when the process has begun anew',
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      await process.deliver(event(begun, 'e1', ['set']))
      await process.deliver(event(changed, 'e2', ['complete']))
      const due = await timeout(world)
      await process.deliver(due)
      await assertLog(world, ['e1, new', 'e2'])
      await world.advance(keep + 1)
      const again = event(begun, 'e3', ['set'])
      await process.deliver(again)
      // Another delivery of the first one's timeout would be a duplicate; this one has not been delivered before.
      await process.deliver(due.withAttributes({ id: 'late' }))
      await assertLog(world, ['e3, new'])
      await process.deliver(await timeout(world, 1))
      await assertLog(world, ['e3, new', 'timeout'])
    },
  },
]

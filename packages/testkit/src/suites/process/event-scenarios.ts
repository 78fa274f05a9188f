import assert from 'node:assert/strict'
import { isAckordError, rootContext } from '@ackord/core'
import {
  assertLog,
  begun,
  changed,
  delay,
  event,
  found,
  inTransaction,
  keep,
  type ProcessScenario,
  sentBy,
  stateOf,
  testProcess,
} from './process-world.ts'

const oddIds = ['I1', 'i1 ', 'i1:', 'ï1', 'i\'1"', 'i1\\', '{i1}', '😀', '%69', 'i'.repeat(255)]

export const eventScenarios: readonly ProcessScenario[] = [
  {
    name: 'an event that begins a process stores its state and sends messages, for every process of the store',
    basic: true,
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      await process.deliver(event(begun, 'e1', ['send', 'set']))
      const other = await world.another()
      await assertLog(other, ['e1, new'])
      assert.deepEqual(await sentBy(world), ['e1'])
      const { version, phase, stateVersion, timeouts, expiresAt } = await found(other)
      assert.deepEqual([version, phase, stateVersion, expiresAt], [1, 'running', 1, undefined])
      assert.deepEqual(Object.keys(timeouts), ['t'])
    },
  },
  {
    name: 'further events find the state that earlier ones have left, in any process of the store',
    basic: true,
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      const other = await world.another()
      await process.deliver(event(begun, 'e1', ['send']))
      await process.deliver(event(changed, 'e2', ['send']), other)
      await process.deliver(event(begun, 'e3', ['send']))
      await assertLog(world, ['e1, new', 'e2', 'e3'])
      assert.deepEqual(await sentBy(world), ['e1', 'e2', 'e3'])
      assert.equal((await found(world)).version, 3)
    },
  },
  {
    name: 'an event that arrives before the one that begins its process is handled when it is redelivered',
    basic: true,
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      const early = event(changed, 'e2', ['send'])
      const isExpected = (error: unknown) => isAckordError(error, 'ACKORD_PROCESS_NOT_STARTED') && error.retryable
      await assert.rejects(process.deliver(early), isExpected)
      assert.equal(await stateOf(world), undefined)
      await process.deliver(event(begun, 'e1', ['send']))
      await process.deliver(early)
      await assertLog(world, ['e1, new', 'e2'])
      assert.deepEqual(await sentBy(world), ['e1', 'e2'])
    },
  },
  {
    name: 'a message that is delivered several times is one event',
    basic: true,
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      for (const one of [event(begun, 'e1', ['send']), event(changed, 'e2', ['send'])]) {
        await process.deliver(one)
        await process.deliver(one, await world.another())
      }
      await assertLog(world, ['e1, new', 'e2'])
      assert.deepEqual(await sentBy(world), ['e1', 'e2'])
      assert.equal((await found(world)).version, 2)
    },
  },
  {
    name: 'a step that fails leaves nothing, and its message is handled when it is redelivered',
    basic: true,
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      await assert.rejects(process.deliver(event(begun, 'e1', ['send', 'set', 'fail'])), /e1 fails/)
      assert.equal(await stateOf(world), undefined)
      assert.deepEqual(await world.records(), [])
      await process.deliver(event(begun, 'e1', ['send']))
      await assert.rejects(process.deliver(event(changed, 'e2', ['send', 'complete', 'fail'])), /e2 fails/)
      await process.deliver(event(changed, 'e2', ['send']))
      await assertLog(world, ['e1, new', 'e2'])
      assert.deepEqual(await sentBy(world), ['e1', 'e2'])
      assert.equal((await found(world)).phase, 'running')
    },
  },
  {
    name: 'a change whose transaction fails after it was saved leaves nothing',
    async run(open) {
      await using world = await open()
      const key = { process: 'test', id: 'i1' }
      const change = { version: 1, begins: true, state: '{"log":["lost"]}', stateVersion: 1, timeouts: {}, keep: undefined }
      const failing = inTransaction(world, 'm1', async (context) => {
        await world.store.save(key, change, context)
        throw new Error('after the save')
      })
      await assert.rejects(failing, /after the save/)
      assert.equal(await world.store.get(key), undefined)
      await testProcess(world).deliver(event(begun, 'e1'))
      await assertLog(world, ['e1, new'])
    },
  },
  {
    name: 'a finished process ignores every event until it is forgotten, and then begins anew',
    basic: true,
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      await process.deliver(event(begun, 'e1', ['set']))
      await process.deliver(event(changed, 'e2', ['send', 'complete']))
      const finished = await found(world)
      assert.deepEqual([finished.phase, finished.timeouts], ['finished', {}])
      assert.ok((finished.expiresAt ?? 0) > finished.changedAt, 'it must be remembered for a time')
      await process.deliver(event(changed, 'e3', ['send']))
      await world.advance(keep - delay)
      await process.deliver(event(begun, 'e4', ['send']), await world.another())
      await assertLog(world, ['e1, new', 'e2'])
      assert.deepEqual(
        process.ignored.map(({ id, reason }) => [id, reason]),
        [
          ['i1', 'finished'],
          ['i1', 'finished'],
        ],
      )
      await world.advance(2 * delay)
      assert.equal(await stateOf(world), undefined)
      await process.deliver(event(begun, 'e5', ['send']))
      await process.deliver(event(changed, 'e6', ['send']))
      await assertLog(world, ['e5, new', 'e6'])
      assert.equal((await found(world)).phase, 'running')
      assert.deepEqual(await sentBy(world), ['e2', 'e5', 'e6'])
    },
  },
  {
    name: 'a process that its first event finishes is remembered, too',
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      await process.deliver(event(begun, 'e1', ['send', 'complete']))
      await process.deliver(event(begun, 'e2', ['send']))
      await assertLog(world, ['e1, new'])
      assert.deepEqual(await sentBy(world), ['e1'])
      assert.equal((await found(world)).phase, 'finished')
    },
  },
  {
    name: 'instances whose ids differ in any way are different, and so are those of other processes',
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      const other = testProcess(world, { name: 'Test' })
      await process.deliver(event(begun, 'e1'))
      for (const [index, of] of oddIds.entries()) await process.deliver(event(begun, `odd${index}`, ['complete'], { of }))
      await other.deliver(event(begun, 'e2', ['complete']))
      await process.deliver(event(changed, 'e3'))
      await assertLog(world, ['e1, new', 'e3'])
      for (const [index, of] of oddIds.entries()) await assertLog(world, [`odd${index}, new`], of)
      const all = await world.store.list()
      assert.equal(all.processes.length, oddIds.length + 2)
    },
  },
  {
    name: 'a state keeps every character and may be large',
    async run(open) {
      await using world = await open()
      const process = testProcess(world)
      const texts = ['\0\u0001\t\n\r "\'\\ {"a":1} %s ?1 $1', 'ä€😀\ud800', 'x'.repeat(300_000)]
      await process.deliver(event(begun, 'e0'))
      for (const [index, text] of texts.entries()) {
        await process.deliver(event(changed, `e${index + 1}`, ['state'], { text }))
        assert.equal((await stateOf(await world.another()))?.text, text)
      }
    },
  },
  {
    name: 'an instance is neither read nor written outside of a transaction',
    async run(open) {
      await using world = await open()
      const isExpected = (error: unknown) => isAckordError(error, 'ACKORD_TRANSACTION_REQUIRED')
      const key = { process: 'test', id: 'i1' }
      await assert.rejects(async () => await world.store.load(key, rootContext()), isExpected)
      const change = { version: 1, begins: true, state: '{}', stateVersion: 1, timeouts: {}, keep: undefined }
      await assert.rejects(async () => await world.store.save(key, change, rootContext()), isExpected)
      assert.equal(await world.store.get(key), undefined)
    },
  },
]

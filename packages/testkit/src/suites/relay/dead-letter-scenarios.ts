import assert from 'node:assert/strict'
import type { PublishResult } from '@ackord/core'
import { type Answer, deadBroker, type RelayScenario, RelayWorld, relayPublishTimeout, type SetupChanges, takeAll } from './relay-world.ts'

const withDeadLetter: SetupChanges = (publisherOf) => ({
  deadLetter: { publisher: publisherOf(deadBroker), destination: 'a.dead' },
})

/** The broker refuses 'bad' permanently; `dead` answers for the dead letter. */
function refusing(dead: Answer): Answer {
  return async (call) => {
    if (call.broker === deadBroker) return await dead(call)
    return call.messages.map(
      ({ id }): PublishResult => (id === 'bad' ? { ok: false, error: new Error('too large'), permanent: true } : { ok: true }),
    )
  }
}

export const deadLetterScenarios: readonly RelayScenario[] = [
  {
    name: 'a parked record has a copy in the dead letter, with its id, its bytes and the reason',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      world.answer = refusing(takeAll)
      await world.add('a', 'e001', 'bad', 'e002')
      await world.start(undefined, withDeadLetter)
      await world.until(async () => (await world.counts()).parked === 1, 'the record is parked')
      const [letter] = world.letters
      assert.deepEqual(
        world.letters.map(({ id }) => id),
        ['bad'],
      )
      assert.match(String(letter?.attributes['deadletterreason']), /too large/)
      const { message } = await world.parked()
      assert.deepEqual([...(letter?.data ?? [])], [...message.data])
      assert.equal(message.attributes['deadletterreason'], undefined, 'the record itself is marked')
      assert.deepEqual(world.arrived, ['e001', 'e002'])
      assert.deepEqual(distinctDestinations(world), ['a.dead'])
    },
  },
  {
    name: 'a relay that is killed before the dead letter has the copy leaves the record to the next relay, which sends it',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      world.answer = refusing(takeAll)
      await world.add('a', 'bad')
      let killed = false
      await world.start((point, process) => {
        if (point !== 'deadLetter') return
        killed = true
        process.kill()
      }, withDeadLetter)
      await world.until(() => killed, 'the copy is about to be sent')
      await world.elapse(5000)
      assert.equal((await world.counts()).parked, 0, 'the record is parked without a copy')
      await world.start(undefined, withDeadLetter)
      await world.until(async () => (await world.counts()).parked === 1, 'the record is parked')
      assert.deepEqual(
        world.letters.map(({ id }) => id),
        ['bad'],
      )
    },
  },
  {
    name: 'a record is parked even if the dead letter rejects the copy, and its error says so',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      world.answer = refusing(async ({ messages }) => messages.map(() => ({ ok: false, error: new Error('the queue is full') })))
      await world.add('a', 'bad', 'e001')
      await world.start(undefined, withDeadLetter)
      await world.until(async () => (await world.counts()).parked === 1, 'the record is parked', 60_000)
      const { lastError = '' } = await world.parked()
      assert.match(lastError, /too large/)
      assert.match(lastError, /the queue is full/, 'the error does not say that there is no copy')
      const asked = world.calls.length
      await world.elapse(120_000)
      assert.equal(world.calls.length, asked, 'the relay continues to publish')
      assert.deepEqual(world.arrived, ['e001'])
    },
  },
  {
    name: 'a dead letter that never answers times out and delays no other record',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      world.answer = refusing(() => new Promise(() => {}))
      await world.add('a', 'bad', 'e001')
      await world.start(undefined, withDeadLetter)
      await world.until(
        async () => world.arrived.length > 0 && (await world.inFlight()) === 1,
        'only the bad record waits for the dead letter',
        5000,
      )
      assert.deepEqual(world.arrived, ['e001'])
      await world.until(async () => (await world.counts()).parked === 1, 'the record is parked', relayPublishTimeout + 5000)
      assert.equal(world.calls.find(({ broker }) => broker === deadBroker)?.signal.aborted, true)
    },
  },
]

function distinctDestinations(world: RelayWorld): string[] {
  return [...new Set(world.calls.filter(({ broker }) => broker === deadBroker).map(({ destination }) => destination))]
}

import type { Fault } from '@ackord/testkit'
import type { Scenario } from '@ackord/testkit/suites'
import { FaultRun } from '../fault-run.ts'
import { batchSize } from '../names.ts'
import { arm, checkHappened } from '../wire.ts'
import type { Moment, ServerStore, ServerStoreKind, ServerStoreOptions } from './store.ts'

type OpenServerStore = ServerStoreKind['open']
type StoreScenario = Scenario<OpenServerStore>

const times = 3

/** A scenario in which one fault hits one kind of traffic. */
function onTheWire(name: string, moment: Moment, fault: Fault): StoreScenario {
  return scenario(name, {}, async (store, run) => {
    const armed = arm(store.proxy, store.recognise(moment), fault, times)
    await run.send(60)
    await run.outcome.untilDone()
    checkHappened(`a connection was cut or half open at '${moment}'`, armed.hits, times)
    return times
  })
}

const halfOpenSettle = onTheWire('half open when the relay settles', 'settle', 'swallow')

/** Every kind of fault of a store on a server. */
export function storeScenarios({ tellsUnknownCommits }: ServerStoreKind): readonly StoreScenario[] {
  return [
    onTheWire('cut at BEGIN, which is lost', 'begin', 'cut before'),
    onTheWire('cut at BEGIN, its answer is lost', 'begin', 'cut after'),
    commits('cut at COMMIT, which is lost', 'cut before'),
    commits('cut at COMMIT, its answer is lost', 'cut after'),
    commits('half open at COMMIT', 'swallow'),
    onTheWire('cut when the relay settles, which is lost', 'settle', 'cut before'),
    onTheWire('cut when the relay settles, the answer is lost', 'settle', 'cut after'),
    halfOpenSettle,
    slow,
    storm,
    restart,
    exhausted,
  ]

  function commits(name: string, fault: Fault): StoreScenario {
    return scenario(name, {}, async (store, run) => {
      const armed = arm(store.proxy, store.recognise('commit'), fault, times)
      await run.send(60)
      await run.outcome.untilDone()
      checkHappened('a connection was cut or half open at COMMIT', armed.hits, times)
      if (tellsUnknownCommits) checkHappened('a commit was unknown', run.failures('ACKORD_COMMIT_UNKNOWN'), 1)
      return times
    })
  }
}

const slow = scenario('a slow connection', {}, async (store, run) => {
  let pieces = 0
  store.proxy.judge(() => {
    pieces += 1
    return 'pass'
  })
  store.proxy.slow({ delay: 5, bytesPerSecond: 400_000 })
  await run.send(30)
  await run.outcome.untilDone()
  store.proxy.slow()
  checkHappened('a piece was slow', pieces, 30)
  return 0
})

const storm = scenario('the server ends all connections, again and again', {}, async (store, run) => {
  const storms = 6
  let ended = 0
  await run.send(120)
  for (let count = 0; count < storms; count += 1) {
    await run.handled(15)
    ended += await store.endConnections()
  }
  checkHappened('a connection was ended by the server', ended, storms)
  return ended
})

const restart = scenario('the server is killed and started again at a third and at a half', { own: true }, async (store, run) => {
  const count = 240
  await run.send(count)
  await run.handled(count / 3)
  await store.restart()
  await run.handled(count / 6)
  await store.restart()
  // Records in flight at the kill, and those in flight when the client found the connection broken, may be published twice.
  return 2
})

const exhausted = scenario('a stranger has all connections of the pool, and frees them', { connections: 2 }, async (store, run) => {
  const held = await store.exhaust?.()
  if (held === undefined) throw new Error('This store has no pool.')
  await run.send(60)
  const before = (await store.observe()).applied.length
  await run.outcome.until(() => held.waiting() >= 2)
  const { applied } = await store.observe()
  checkHappened('nothing was applied while others had the connections', applied.length === before ? 1 : 0, 1)
  held.free()
  return 0
})

/** The scenario that only applies to stores with a pool. */
export const needsPool: string = exhausted.name

/** A slow scenario that repeats another of its kind. */
export const isRepetition: string = halfOpenSettle.name

type Fate = (store: ServerStore, run: FaultRun) => Promise<number>

/** Runs a working service, a fault, and the same service afterwards. `fate` returns how many batches may have been published twice. */
function scenario(name: string, options: ServerStoreOptions, fate: Fate): StoreScenario {
  return {
    name,
    async run(open) {
      await using store = await open(options)
      await using run = new FaultRun(store)
      // Ensures that connections are open and scripts loaded before the fault.
      await run.send(8)
      await run.outcome.untilDone()
      const faults = await fate(store, run)
      store.proxy.judge()
      return await run.finish(faults, batchSize)
    },
  }
}

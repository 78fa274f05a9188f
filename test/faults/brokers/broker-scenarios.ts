import type { Fault } from '@ackord/testkit'
import type { Scenario } from '@ackord/testkit/suites'
import { FaultRun } from '../fault-run.ts'
import { batchSize } from '../names.ts'
import { openSqliteStore } from '../stores/sqlite-store.ts'
import { arm, checkHappened } from '../wire.ts'
import type { BrokerMoment, FaultBroker } from './broker.ts'

type BrokerScenario = Scenario<() => Promise<FaultBroker>>

const times = 2

/** Every kind of broker fault. The store is a file, which has no connection that could fail. */
export const brokerScenarios: readonly BrokerScenario[] = [
  scenario('cut when an event is published, which is lost', 'publish', 'cut before'),
  scenario('cut when an event is published, its confirm is lost', 'publish', 'cut after'),
  scenario('half open when an event is published', 'publish', 'swallow'),
  scenario('cut when a command is acked, which is lost', 'ack', 'cut before'),
  scenario('cut when a command is acked, the answer is lost', 'ack', 'cut after'),
  {
    name: 'a slow connection',
    async run(open) {
      await using store = await openSqliteStore()
      await using broker = await open()
      await using run = new FaultRun(store, broker)
      let pieces = 0
      const proxies = (['publish', 'ack'] as const).map((moment) => broker.proxy(moment))
      for (const proxy of proxies) {
        proxy.slow({ delay: 5, bytesPerSecond: 400_000 })
        proxy.judge(() => {
          pieces += 1
          return 'pass'
        })
      }
      await run.send(30)
      await run.outcome.untilDone()
      for (const proxy of proxies) proxy.slow()
      checkHappened('a piece was slow', pieces, 10)
      return await run.finish(1)
    },
  },
]

function scenario(name: string, moment: BrokerMoment, fault: Fault): BrokerScenario {
  return {
    name,
    async run(open) {
      await using store = await openSqliteStore()
      await using broker = await open()
      await using run = new FaultRun(store, broker)
      await run.send(8)
      await run.outcome.untilDone()
      const armed = arm(broker.proxy(moment), broker.recognise(moment), fault, times)
      // Acks may be batched, so it may take more messages until the fault has occurred.
      for (let round = 0; round < 20 && armed.hits < times; round += 1) {
        await run.send(40)
        await run.outcome.untilDone()
      }
      checkHappened(`a connection was cut or half open at '${moment}'`, armed.hits, times)
      return await run.finish(times, batchSize)
    },
  }
}

import { MemoryBroker, silentLogger } from '@ackord/core'
import type { Mutant } from '../run/scenario.ts'
import type { BrokerClaims, OpenBrokerWorld } from '../suites/broker/broker-world.ts'
import { type BrokerRules, brokerRules } from './broker-rules.ts'
import { RuledPublisher, type RuledStore } from './ruled-publisher.ts'
import { RuledSource } from './ruled-source.ts'

/** A ruled broker claims everything there is to claim, so that each scenario has something to be wrong about. */
export const ruledBrokerClaims: BrokerClaims = {
  competing: true,
  settlesEach: true,
  order: 'perKey',
  delay: true,
  deliveryCount: true,
  groups: true,
  replay: true,
  types: true,
  names: true,
  declared: true,
  sizeLimit: true,
  dropsRepeats: true,
  restart: true,
}

const largest = 1_048_576

/** A memory broker that breaks these rules; with none it is right. */
export function ruledBrokerWorld(broken: Partial<BrokerRules> = {}): OpenBrokerWorld {
  const rules: BrokerRules = { ...brokerRules, ...broken }
  return async () => {
    const broker = new MemoryBroker({ logger: silentLogger })
    const declared = new Set<string>()
    const sources: RuledSource[] = []
    const store: RuledStore = { broker, rules, declared, published: new Set(), tooLarge: largest + 1 }
    return {
      // What a mutant keeps back is not worth waiting for.
      patience: Object.keys(broken).length === 0 ? undefined : 1000,
      largest,
      tooLarge: largest + 1,
      async topic() {
        const destination = `topic${declared.size + 1}`
        declared.add(destination)
        const topic = rules.destination(destination)
        // It settles nothing, so that the topic keeps everything.
        if (rules.keeps) broker.source(topic, { group: 'keeper' })
        return {
          destination,
          source({ group = 'default', deadLetter, prefetch = 100 } = {}) {
            const number = sources.length
            const source = new RuledSource({
              rules,
              append: (message) => broker.publish(topic, [message]),
              open: () =>
                broker.source(
                  topic,
                  rules.options({
                    group: rules.group(group, number),
                    prefetch,
                    deadLetter: rules.deadLetter(deadLetter),
                    orderPerKey: true,
                  }),
                ),
            })
            sources.push(source)
            return source
          },
        }
      },
      publisher: () => new RuledPublisher(store),
      missing: () => 'nobody made it',
      async restart() {
        for (const source of sources) await source.restart()
      },
      [Symbol.asyncDispose]: () => broker.close(),
    }
  }
}

/** A mutant for each set of broken rules, by its name. */
export function brokenBroker(caughtBy: string, mutants: Readonly<Record<string, Partial<BrokerRules>>>): Mutant<OpenBrokerWorld>[] {
  return Object.entries(mutants).map(([name, rules]) => ({ name, caughtBy, open: ruledBrokerWorld(rules) }))
}

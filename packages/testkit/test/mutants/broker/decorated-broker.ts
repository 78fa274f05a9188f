import { MemoryBroker, silentLogger } from '@ackord/core'
import type { BrokerClaims, OpenBrokerWorld } from '../../../src/suites/broker/broker-world.ts'
import { type Mutant, mutantsOf } from '../../support/mutant.ts'
import { type BrokerRules, brokerRules } from './broker-rules.ts'
import { type DecoratedParts, DecoratedPublisher } from './decorated-publisher.ts'
import { DecoratedSource } from './decorated-source.ts'

/** The decorated broker makes every claim there is, so that each scenario has a promise to check. */
export const decoratedBrokerClaims: BrokerClaims = {
  competing: true,
  settlesEach: true,
  order: 'perKey',
  delay: true,
  deliveryCount: true,
  groups: true,
  replay: true,
  types: true,
  names: true,
  origin: true,
  declared: true,
  sizeLimit: true,
  dropsRepeats: true,
  restart: true,
}

const largest = 1_048_576

/** The MemoryBroker, decorated so that it breaks these rules. Without any, it is correct. */
export function decoratedBroker(broken: Partial<BrokerRules> = {}): OpenBrokerWorld {
  const rules: BrokerRules = { ...brokerRules, ...broken }
  return async () => {
    const broker = new MemoryBroker({ logger: silentLogger })
    const declared = new Set<string>()
    const sources: DecoratedSource[] = []
    const store: DecoratedParts = { broker, rules, declared, published: new Set(), tooLarge: largest + 1 }
    return {
      // A short patience, because a scenario that waits for something a mutant withholds would only wait longer.
      patience: Object.keys(broken).length === 0 ? undefined : 1000,
      largest,
      tooLarge: largest + 1,
      async topic() {
        const destination = `topic${declared.size + 1}`
        declared.add(destination)
        const topic = rules.destination(destination)
        // This group settles nothing, so that the topic keeps all messages.
        if (rules.keepsSettled) broker.source(topic, { group: 'keeper' })
        return {
          destination,
          source({ group = 'default', deadLetter, prefetch = 100 } = {}) {
            const number = sources.length
            const source = new DecoratedSource({
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
      publisher: () => new DecoratedPublisher(store),
      missing: () => 'undeclared',
      async restart() {
        for (const source of sources) await source.restart()
      },
      [Symbol.asyncDispose]: () => broker.close(),
    }
  }
}

/** Addresses that must not reach telemetry. */
export const wrongAddresses: Readonly<Record<string, Partial<BrokerRules>>> = {
  'there is no system': { address: {} },
  'the system has no name': { address: { system: '' } },
  'the server is a URL with a password': { address: { system: 'memory', serverAddress: 'amqp://guest:guest@localhost' } },
  'the port is not a number': { address: { system: 'memory', serverAddress: 'localhost', serverPort: Number.NaN } },
}

/** The broker mutants that one scenario must catch. */
export function brokenBroker(caughtBy: string, mutants: Readonly<Record<string, Partial<BrokerRules>>>): Mutant<OpenBrokerWorld>[] {
  return mutantsOf(caughtBy, mutants, decoratedBroker)
}

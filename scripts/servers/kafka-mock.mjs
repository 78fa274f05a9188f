// @ts-check

import { unprivilegedAccount } from './account.mjs'
import { findBinary } from './find-binary.mjs'
import { greetKafka } from './kafka-protocol.mjs'
import { requireBinary } from './require-binary.mjs'
import { startServer } from './server.mjs'

/** @type {import('./kind.mjs').Kind} */
export const kafkaMock = {
  name: 'kafka',
  variable: 'KAFKA_URL',
  defaultPort: 9092,
  defaultUrl: 'kafka://127.0.0.1:9092',
  debianPackage: 'kcat',
  locate: () => findBinary('kcat'),
  probe: greetKafka,
  start: startKafkaMock,
}

/**
 * The mock cluster of librdkafka: kcat waits for a topic that is never written to, and the cluster lives as long as kcat. It
 * keeps everything in memory and picks its own port, so after `restart` it is empty and `url` has changed.
 *
 * @returns {Promise<import('./server.mjs').Server>}
 */
export async function startKafkaMock() {
  const binary = requireBinary(kafkaMock)
  return await startServer({
    name: 'kafka',
    account: unprivilegedAccount(),
    launch: () => ({ file: binary, args: ['-b', 'mock:1', '-X', 'test.mock.num.brokers=1', '-C', '-t', 'hold'] }),
    ready: async (output) => {
      const address = /bootstrap\.servers.* replaced with (\S+)/.exec(output)?.[1]
      if (address === undefined) throw new Error('kcat has not printed the address of its mock cluster')
      const url = `kafka://${address}`
      await greetKafka(url)
      return url
    },
  })
}

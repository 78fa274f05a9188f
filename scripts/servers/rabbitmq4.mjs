// @ts-check
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { greetAmqp10 } from './amqp10-protocol.mjs'
import { foreignServers } from './foreign/catalogue.mjs'
import { foreignRoot, rootVariable } from './foreign/root.mjs'
import { unpackForeign } from './foreign/unpack.mjs'
import { findRabbitmq, startRabbitmqOf } from './rabbitmq.mjs'

const id = 'rabbitmq-4.0'

/**
 * A server that speaks AMQP 1.0, as RabbitMQ does from version 4 on. It is downloaded into .cache, once, from the stable suite of Debian: the machine's own may be
 * older, and the newest version is in a suite that changes every week. `make test-servers` runs the tests on that one as well.
 *
 * @type {import('./kind.mjs').Kind}
 */
export const rabbitmq4 = {
  name: 'rabbitmq4',
  variable: 'AMQP_URL',
  defaultPort: 5672,
  defaultUrl: undefined,
  debianPackage: 'rabbitmq-server 4',
  locate: () => (useRoot() ? findRabbitmq(rabbitmq4.name) : undefined),
  probe: greetAmqp10,
  prepare,
  start: startRabbitmq4,
}

async function prepare() {
  const server = foreignServers.find((each) => each.id === id)
  if (server === undefined) throw new Error(`the catalogue has no ${id}`)
  await unpackForeign(server)
}

/** Whether a downloaded system is known from here on, as one that `ACKORD_RABBITMQ4_ROOT` names. */
function useRoot() {
  if (foreignRoot(rabbitmq4.name) !== '') return true
  const root = fileURLToPath(new URL(`../../.cache/foreign/${id}`, import.meta.url))
  // Written last, when all packages are unpacked.
  if (!existsSync(join(root, 'packages'))) return false
  process.env[rootVariable(rabbitmq4.name)] = root
  return true
}

/**
 * @param {{ readonly heartbeat?: number }} [options] `heartbeat`: seconds after which it closes a silent connection. Default: 60.
 * @returns {Promise<import('./server.mjs').Server>} user and password are `guest`
 */
export async function startRabbitmq4({ heartbeat } = {}) {
  useRoot()
  return await startRabbitmqOf(rabbitmq4, heartbeat === undefined ? '' : `-rabbit heartbeat ${heartbeat}`)
}

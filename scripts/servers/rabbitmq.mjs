// @ts-check
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { unprivilegedAccount } from './account.mjs'
import { greetAmqp } from './amqp-protocol.mjs'
import { findBinary } from './find-binary.mjs'
import { foreignRoot } from './foreign/root.mjs'
import { freePort } from './free-port.mjs'
import { requireBinary } from './require-binary.mjs'
import { startServer } from './server.mjs'
import { Wire } from './wire.mjs'

/** @type {import('./kind.mjs').Kind} */
export const rabbitmq = {
  name: 'rabbitmq',
  variable: 'RABBITMQ_URL',
  defaultPort: 5672,
  defaultUrl: 'amqp://guest:guest@127.0.0.1:5672',
  debianPackage: 'rabbitmq-server',
  locate: () => findRabbitmq('rabbitmq'),
  probe: greetAmqp,
  start: startRabbitmq,
}

/** @param {string} kind */
export function findRabbitmq(kind) {
  // Not Debian's wrapper in the PATH, which switches to the user and directory of the machine's own broker.
  return findMapper(kind) === undefined ? undefined : findBinary('rabbitmq-server', ['/usr/lib/rabbitmq/bin'], foreignRoot(kind))
}

/** @param {string} kind */
function findMapper(kind) {
  return findBinary('epmd', [], foreignRoot(kind))
}

/**
 * Shares nothing with a broker of the machine: node name, directories, ports and Erlang's port mapper are separate.
 * The port mapper runs as our child, because the one that Erlang starts by itself is a daemon and would stay behind.
 *
 * @returns {Promise<import('./server.mjs').Server>} user and password are `guest`
 */
export async function startRabbitmq() {
  return await startRabbitmqOf(rabbitmq)
}

/**
 * @param {import('./kind.mjs').Kind} kind
 * @param {string} [settings] further arguments of Erlang. Default: none.
 * @returns {Promise<import('./server.mjs').Server>} user and password are `guest`
 */
export async function startRabbitmqOf(kind, settings = '') {
  const binary = requireBinary(kind)
  const [port, distributionPort, mapperPort] = await Promise.all([freePort(), freePort(), freePort()])
  const url = `amqp://guest:guest@127.0.0.1:${port}`
  const mapper = { ERL_EPMD_PORT: String(mapperPort), ERL_EPMD_ADDRESS: '127.0.0.1' }
  const node = `ackord-${randomBytes(4).toString('hex')}@localhost`

  return await startServer({
    name: kind.name,
    account: unprivilegedAccount('rabbitmq'),
    companion: { file: findMapper(kind.name) ?? 'epmd', args: [], env: mapper, ready: () => connectOnce(mapperPort) },
    launch: (directory) => ({
      file: binary,
      args: [],
      env: {
        ...mapper,
        ERL_FLAGS: '-start_epmd false',
        RABBITMQ_NODENAME: node,
        RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
        RABBITMQ_NODE_PORT: String(port),
        RABBITMQ_DIST_PORT: String(distributionPort),
        RABBITMQ_MNESIA_BASE: join(directory, 'data'),
        RABBITMQ_LOG_BASE: directory,
        RABBITMQ_LOGS: '-',
        RABBITMQ_PLUGINS_EXPAND_DIR: join(directory, 'plugins'),
        RABBITMQ_PID_FILE: join(directory, 'pid'),
        // Paths of missing files, in place of those in /etc.
        RABBITMQ_CONF_ENV_FILE: join(directory, 'rabbitmq-env.conf'),
        RABBITMQ_CONFIG_FILE: join(directory, 'rabbitmq'),
        RABBITMQ_ADVANCED_CONFIG_FILE: join(directory, 'advanced.config'),
        RABBITMQ_ENABLED_PLUGINS_FILE: join(directory, 'enabled_plugins'),
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: `-kernel inet_dist_use_interface {127,0,0,1} ${settings}`.trim(),
        // Makes the script replace itself with the server, so that the known pid is the broker's.
        RUNNING_UNDER_SYSTEMD: 'true',
      },
    }),
    ready: async () => {
      await greetAmqp(url)
      return url
    },
    timeout: 90_000,
  })
}

/** @param {number} port */
async function connectOnce(port) {
  const wire = await Wire.open({ host: '127.0.0.1', port })
  wire.close()
  return true
}

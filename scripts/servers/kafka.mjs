// @ts-check
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { unprivilegedAccount } from './account.mjs'
import { freePort } from './free-port.mjs'
import { findKafkaDistribution, isReadableByAll, kafkaHome } from './kafka-distribution.mjs'
import { kafkaMock, startKafkaMock } from './kafka-mock.mjs'
import { countKafkaBrokers, greetKafka, isRealKafka } from './kafka-protocol.mjs'
import { startServer } from './server.mjs'

/**
 * A real broker from the distribution in `KAFKA_HOME`; the mock cluster if that is not set.
 *
 * @type {import('./kind.mjs').Kind}
 */
export const kafka = {
  ...kafkaMock,
  // A distribution that was named is started, whatever runs at the default port.
  get defaultUrl() {
    return kafkaHome() === undefined ? kafkaMock.defaultUrl : undefined
  },
  locate() {
    const home = kafkaHome()
    return home === undefined ? kafkaMock.locate() : join(home, 'bin/kafka-server-start.sh')
  },
  async obstacle(environment) {
    if (kafkaHome(environment) === undefined) return undefined
    return await findKafkaDistribution(environment).then(
      () => undefined,
      (error) => error.message,
    )
  },
  start: () => (kafkaHome() === undefined ? startKafkaMock() : startKafka()),
}

/**
 * @typedef {object} KafkaOptions
 * @property {Readonly<Record<string, string>>} [users] passwords by name. Clients must then log in by SASL PLAIN, and everything
 *   that no ACL allows is denied, except to the first user. Default: no login, everything is allowed.
 * @property {Readonly<Record<string, string>>} [properties] further settings of the broker. Default: none.
 */

/**
 * A broker of the distribution in `KAFKA_HOME`: one node in KRaft mode, broker and controller in one process, with storage,
 * ports and logs of its own. `restart` keeps its data. `url` has no user: tests add the one they need.
 *
 * @param {KafkaOptions} [options]
 * @returns {Promise<import('./server.mjs').Server>}
 */
export async function startKafka({ users, properties = {} } = {}) {
  const { home, format, start, environment } = await findKafkaDistribution()
  const [port, controllerPort, internalPort] = await Promise.all([freePort(), freePort(), freePort()])
  const ports = { port, controllerPort, internalPort }
  const url = `kafka://127.0.0.1:${port}`
  const configured = (/** @type {string} */ directory) => join(directory, 'server.properties')
  const env = (/** @type {string} */ directory) => ({
    ...environment,
    LOG_DIR: join(directory, 'logs'),
    KAFKA_HEAP_OPTS: '-Xms128m -Xmx512m',
    // Java would leave files in /tmp: memory-mapped counters of the process, and native libraries.
    KAFKA_OPTS: `-XX:-UsePerfData -Djava.io.tmpdir=${directory}`,
  })

  return await startServer({
    name: 'kafka',
    account: isReadableByAll(home) ? unprivilegedAccount('kafka') : undefined,
    prepare: (directory) => {
      const settings = { ...kafkaProperties(directory, ports, users), ...properties }
      writeFileSync(configured(directory), formatProperties(settings))
      return [{ file: format, args: ['format', '--cluster-id', clusterId(), '--config', configured(directory)], env: env(directory) }]
    },
    launch: (directory) => ({ file: start, args: [configured(directory)], env: env(directory) }),
    ready: async () => {
      await greetKafka(url)
      const open = users === undefined ? port : internalPort
      if ((await countKafkaBrokers(`kafka://127.0.0.1:${open}`)) === 0) throw new Error('the broker has not registered yet')
      return url
    },
    // Java starts slowly on a busy machine. After a kill the broker cannot register again before its session (9 s) has ended.
    timeout: 120_000,
  })
}

/** @typedef {{ readonly port: number, readonly controllerPort: number, readonly internalPort: number }} KafkaPorts */

/**
 * The settings of a single node. The quorum is static (`controller.quorum.voters`), because that is the form that all versions
 * from 3.3 on accept, and whose storage all of them format with the same arguments.
 *
 * @param {string} directory
 * @param {KafkaPorts} ports
 * @param {KafkaOptions['users']} users
 * @returns {Record<string, string>}
 */
export function kafkaProperties(directory, { port, controllerPort, internalPort }, users) {
  const listeners = [`CLIENTS://127.0.0.1:${port}`]
  const internal = `INTERNAL://127.0.0.1:${internalPort}`
  // The broker reaches itself without a login.
  if (users !== undefined) listeners.push(internal)
  const protocols = [`CLIENTS:${users === undefined ? 'PLAINTEXT' : 'SASL_PLAINTEXT'}`, 'INTERNAL:PLAINTEXT', 'CONTROLLER:PLAINTEXT']
  return {
    'process.roles': 'broker,controller',
    'node.id': '1',
    'controller.quorum.voters': `1@127.0.0.1:${controllerPort}`,
    'controller.listener.names': 'CONTROLLER',
    listeners: [...listeners, `CONTROLLER://127.0.0.1:${controllerPort}`].join(','),
    'advertised.listeners': listeners.join(','),
    'listener.security.protocol.map': protocols.join(','),
    'inter.broker.listener.name': users === undefined ? 'CLIENTS' : 'INTERNAL',
    'log.dirs': join(directory, 'data'),
    // As the mock cluster creates topics.
    'num.partitions': '4',
    // One node has no replicas.
    'offsets.topic.replication.factor': '1',
    'offsets.topic.num.partitions': '4',
    'transaction.state.log.replication.factor': '1',
    'transaction.state.log.min.isr': '1',
    'transaction.state.log.num.partitions': '4',
    // A group starts when its first member has joined.
    'group.initial.rebalance.delay.ms': '0',
    ...(users === undefined ? {} : permissionProperties(users)),
  }
}

/** @param {Readonly<Record<string, string>>} users */
function permissionProperties(users) {
  const [administrator] = Object.keys(users)
  const logins = Object.entries(users).map(([name, password]) => `user_${name}="${password}"`)
  return {
    'sasl.enabled.mechanisms': 'PLAIN',
    'listener.name.clients.sasl.enabled.mechanisms': 'PLAIN',
    'listener.name.clients.plain.sasl.jaas.config': `org.apache.kafka.common.security.plain.PlainLoginModule required ${logins.join(' ')};`,
    'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    // The broker itself is anonymous: it connects without a login.
    'super.users': `User:ANONYMOUS;User:${administrator}`,
    'allow.everyone.if.no.acl.found': 'false',
  }
}

/** @param {Readonly<Record<string, string>>} settings */
function formatProperties(settings) {
  return Object.entries(settings)
    .map(([name, value]) => `${name}=${value.replaceAll('\\', '\\\\')}\n`)
    .join('')
}

/** A UUID as Kafka writes it. An argument cannot begin with a hyphen. */
function clusterId() {
  return randomBytes(16).toString('base64url').replace(/^-/, 'A')
}

/**
 * A broker for one test file, and whether it is a real one.
 *
 * @typedef {object} ProvidedKafka
 * @property {string} url
 * @property {boolean} isReal
 * @property {import('./server.mjs').Server | undefined} server if it belongs to the caller, who may kill it
 * @property {() => Promise<void>} stop
 */

/** Whether `provideKafka()` provides a real broker. */
export async function hasRealKafka() {
  return kafkaHome() !== undefined || (await isRealKafka(process.env['KAFKA_URL']))
}

/**
 * A separate real broker if `KAFKA_HOME` is set; else the one at `KAFKA_URL`, if it is real; else a separate mock cluster.
 *
 * @returns {Promise<ProvidedKafka>}
 */
export async function provideKafka() {
  const { KAFKA_URL = '' } = process.env
  const isStarted = kafkaHome() !== undefined
  if (!isStarted && (await isRealKafka(KAFKA_URL))) return { url: KAFKA_URL, isReal: true, server: undefined, stop: async () => {} }
  const server = isStarted ? await startKafka() : await startKafkaMock()
  return { url: server.url, isReal: isStarted, server, stop: server.stop }
}

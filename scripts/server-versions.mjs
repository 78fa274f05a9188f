// @ts-check
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAddress } from './servers/address.mjs'
import { fauxqs } from './servers/fauxqs.mjs'
import { queryPostgres } from './servers/postgres-protocol.mjs'
import { askRedis } from './servers/redis-protocol.mjs'
import { Wire } from './servers/wire.mjs'

/** How to read the version of each server. @type {Readonly<Record<string, readonly [variable: string, ask: (url: string) => Promise<string>]>>} */
const servers = {
  PostgreSQL: ['POSTGRES_URL', async (url) => String((await queryPostgres(url, 'SHOW server_version'))[0]?.[0])],
  MariaDB: ['MARIADB_URL', (url) => greeting(url, 3306, '', /\d+\.\d+\.\d+(?=-MariaDB)/)],
  MySQL: ['MYSQL_URL', (url) => greeting(url, 3306, '', /\n(\d+\.\d+\.\d+)(?!-MariaDB)/)],
  Redis: ['REDIS_URL', async (url) => /redis_version:(\S+)/.exec(await redisInformation(url))?.[1] ?? ''],
  // Valkey also reports the version of Redis with which it is compatible.
  Valkey: ['VALKEY_URL', async (url) => /valkey_version:(\S+)/.exec(await redisInformation(url))?.[1] ?? ''],
  RabbitMQ: ['RABBITMQ_URL', rabbitmqVersion],
  // It speaks both protocols at the same port, and says its version in the older one.
  'RabbitMQ (AMQP 1.0)': ['AMQP_URL', rabbitmqVersion],
  NATS: ['NATS_URL', (url) => greeting(url, 4222, '', /"version":"([^"]+)"/)],
  Mosquitto: ['MQTT_URL', (url) => greeting(url, 1883, askMosquitto, /mosquitto version (\d+\.\d+\.\d+)/)],
  fauxqs: ['SQS_URL', fauxqsVersion],
}

/** A login without a name, a subscription to the topic with the version, and a ping, whose answer ends the text of the version. */
const askMosquitto = Buffer.concat([
  Buffer.from('\x10\x0c\x00\x04MQTT\x04\x02\x00\x0a\x00\x00', 'latin1'),
  Buffer.from('\x82\x18\x00\x01\x00\x13$SYS/broker/version\x00', 'latin1'),
  Buffer.from('\xc0\x00', 'latin1'),
])

/**
 * The versions of the servers that the environment names. A server whose version cannot be read is omitted.
 *
 * @param {NodeJS.ProcessEnv} environment
 * @returns {Promise<Record<string, string>>}
 */
export async function serverVersions(environment) {
  /** @type {Record<string, string>} */
  const versions = {}
  for (const [name, [variable, ask]] of Object.entries(servers)) {
    const url = environment[variable]
    if (url === undefined) continue
    const version = await ask(url).catch(() => '')
    if (version !== '') versions[name] = version.split(' ')[0] ?? ''
  }
  return versions
}

/** @param {string} url */
async function redisInformation(url) {
  return String((await askRedis(url, ['INFO', 'server']))[0])
}

/** @param {string} url */
function rabbitmqVersion(url) {
  return greeting(url, 5672, 'AMQP\x00\x00\x09\x01', /version[^a-z]*?(\d+\.\d+\.\d+)/)
}

/**
 * The emulator does not say its version; it is the one that is installed here. Empty for another server.
 *
 * @param {string} url
 */
async function fauxqsVersion(url) {
  const entry = fauxqs.locate()
  const answer = await fetch(new URL('/health', url), { signal: AbortSignal.timeout(5000) })
  if (entry === undefined || !answer.ok || !/"status":"ok"/.test(await answer.text())) return ''
  return JSON.parse(readFileSync(join(entry, '../../package.json'), 'utf8')).version
}

/**
 * Matches a pattern in the greeting of a server.
 *
 * @param {string} url
 * @param {number} defaultPort
 * @param {string | Buffer} opening the bytes that the client has to send first
 * @param {RegExp} version
 */
async function greeting(url, defaultPort, opening, version) {
  const wire = await Wire.open(parseAddress(url, defaultPort))
  try {
    if (opening.length > 0) wire.write(opening)
    for (let text = ''; text.length < 4096; ) {
      text += (await wire.read(1)).toString('latin1')
      const found = version.exec(`${text}`)
      // Reads one character past the match, because the number may continue.
      if (found !== null && found.index + found[0].length < text.length) return found[1] ?? found[0]
    }
    return ''
  } finally {
    wire.close()
  }
}

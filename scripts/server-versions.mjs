// @ts-check
import { parseAddress } from './servers/address.mjs'
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
  RabbitMQ: ['RABBITMQ_URL', (url) => greeting(url, 5672, 'AMQP\x00\x00\x09\x01', /version[^a-z]*?(\d+\.\d+\.\d+)/)],
  NATS: ['NATS_URL', (url) => greeting(url, 4222, '', /"version":"([^"]+)"/)],
}

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

/**
 * Matches a pattern in the greeting of a server.
 *
 * @param {string} url
 * @param {number} defaultPort
 * @param {string} opening the bytes that the client has to send first
 * @param {RegExp} version
 */
async function greeting(url, defaultPort, opening, version) {
  const wire = await Wire.open(parseAddress(url, defaultPort))
  try {
    if (opening !== '') wire.write(opening)
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

// @ts-check

import { pbkdf2Sync, randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { unprivilegedAccount } from './account.mjs'
import { parseAddress } from './address.mjs'
import { findBinary } from './find-binary.mjs'
import { foreignRoot } from './foreign/root.mjs'
import { freePort } from './free-port.mjs'
import { requireBinary } from './require-binary.mjs'
import { startServer } from './server.mjs'
import { Wire } from './wire.mjs'

/** @type {import('./kind.mjs').Kind} */
export const mosquitto = {
  name: 'mosquitto',
  variable: 'MQTT_URL',
  defaultPort: 1883,
  defaultUrl: 'mqtt://127.0.0.1:1883',
  debianPackage: 'mosquitto',
  locate: () => findBinary('mosquitto', ['/usr/sbin'], foreignRoot('mosquitto')),
  probe: greetMqtt,
  start: () => startMosquitto(),
}

/**
 * Connects with MQTT 5.
 *
 * @param {string} url
 */
async function greetMqtt(url) {
  const { host, port, user, password } = parseAddress(url, 1883)
  const wire = await Wire.open({ host, port, secure: new URL(url).protocol === 'mqtts:' })
  try {
    const flags = 0x02 | (user === undefined ? 0 : 0x80) | (password === undefined ? 0 : 0x40)
    // Protocol, version 5, a clean start, a keep-alive of ten seconds, no properties, an empty client id.
    const head = [text('MQTT'), Buffer.of(5, flags, 0, 10, 0), text('')]
    const body = Buffer.concat([...head, ...[user, password].flatMap((part) => (part === undefined ? [] : [text(part)]))])
    wire.write(Buffer.of(0x10, body.length), body)
    const [kind, , , code = -1] = await wire.read(4)
    if (kind !== 0x20) throw new Error('it does not speak MQTT')
    if (code !== 0) throw new Error(`it refuses the connection, with reason code 0x${code.toString(16)}`)
    wire.write(Buffer.of(0xe0, 0))
  } finally {
    wire.close()
  }
}

/** @param {string} value */
function text(value) {
  const bytes = Buffer.from(value)
  return Buffer.concat([Buffer.of(bytes.length >> 8, bytes.length & 0xff), bytes])
}

/**
 * With persistence: a restart keeps sessions and the messages in them. Mosquitto writes them when it ends, so a `kill` loses them.
 *
 * @param {object} [options]
 * @param {Readonly<Record<string, string>>} [options.users] their passwords; the first user is included in `url`. Default: everyone may connect.
 * @param {readonly string[]} [options.settings] further lines of the configuration
 * @param {readonly string[]} [options.access] lines of an access-control file. Default: everything is allowed.
 * @returns {Promise<import('./server.mjs').Server>}
 */
export async function startMosquitto({ users = {}, settings = [], access } = {}) {
  const binary = requireBinary(mosquitto)
  const port = await freePort()
  const names = Object.keys(users)
  const [first] = names
  const login = [first, users[first ?? '']].map((part) => encodeURIComponent(part ?? '')).join(':')
  const url = `mqtt://${first === undefined ? '' : `${login}@`}127.0.0.1:${port}`

  return await startServer({
    name: 'mosquitto',
    account: unprivilegedAccount('mosquitto'),
    launch(directory) {
      const [config, passwords, rules] = [join(directory, 'mosquitto.conf'), join(directory, 'passwords'), join(directory, 'access')]
      const lines = [
        `listener ${port} 127.0.0.1`,
        'persistence true',
        `persistence_location ${directory}/`,
        'log_dest stdout',
        `allow_anonymous ${names.length === 0}`,
        ...(names.length === 0 ? [] : [`password_file ${passwords}`]),
        ...(access === undefined ? [] : [`acl_file ${rules}`]),
        ...settings,
      ]
      writeFileSync(passwords, names.map((name) => `${name}:${hash(users[name] ?? '')}\n`).join(''), { mode: 0o644 })
      writeFileSync(rules, `${(access ?? []).join('\n')}\n`, { mode: 0o644 })
      writeFileSync(config, `${lines.join('\n')}\n`, { mode: 0o644 })
      return { file: binary, args: ['-c', config] }
    },
    ready: async () => {
      await greetMqtt(url)
      return url
    },
  })
}

/**
 * As `mosquitto_passwd` writes it.
 *
 * @param {string} password
 */
function hash(password) {
  const salt = randomBytes(12)
  return `$7$101$${salt.toString('base64')}$${pbkdf2Sync(password, salt, 101, 64, 'sha512').toString('base64')}`
}

// @ts-check
import { createHash } from 'node:crypto'
import { parseAddress } from './address.mjs'
import { Wire } from './wire.mjs'

const protocol41 = 1 << 9
const secureConnection = 1 << 15
const pluginAuth = 1 << 19
const connectWithDatabase = 1 << 3

/** The server answers but requires a login method that is not implemented here. */
export class UnknownLoginError extends Error {}

/**
 * Runs one statement on a separate connection; its rows are not read.
 *
 * @param {string} url
 * @param {string} sql
 */
export async function queryMariadb(url, sql) {
  const { host, port, user = 'root', password = '', path } = parseAddress(url, 3306)
  const wire = await Wire.open({ host, port })
  try {
    const greeting = await receive(wire)
    const nameEnd = greeting.body.indexOf(0)
    if (greeting.body[0] !== 10 || nameEnd < 0) throw new Error('it does not speak the protocol of MySQL and MariaDB')
    const afterName = nameEnd + 1
    const scramble = Buffer.concat([
      greeting.body.subarray(afterName + 4, afterName + 12),
      greeting.body.subarray(afterName + 31, afterName + 43),
    ])
    send(wire, greeting.sequence + 1, handshake(user, nativePassword(password, scramble), path))
    await finishLogin(wire, password)
    send(wire, 0, Buffer.from(`\x03${sql}`))
    await receive(wire)
  } finally {
    send(wire, 0, Buffer.from([1]))
    wire.close()
  }
}

/**
 * @param {string} user
 * @param {Buffer} response
 * @param {string} database
 */
function handshake(user, response, database) {
  const fixed = Buffer.alloc(32)
  fixed.writeUInt32LE(protocol41 | secureConnection | pluginAuth | (database === '' ? 0 : connectWithDatabase), 0)
  fixed.writeUInt32LE(1 << 24, 4)
  fixed[8] = 45 // utf8mb4
  return Buffer.concat([
    fixed,
    Buffer.from(`${user}\0`),
    Buffer.from([response.length]),
    response,
    Buffer.from(database === '' ? '' : `${database}\0`),
    Buffer.from('mysql_native_password\0'),
  ])
}

/**
 * @param {Wire} wire
 * @param {string} password
 */
async function finishLogin(wire, password) {
  for (;;) {
    const { body, sequence } = await receive(wire)
    if (body[0] === 0) return
    if (body[0] !== 0xfe) throw new UnknownLoginError('the login requires more than a password')
    const nameEnd = body.indexOf(0)
    const plugin = body.toString('latin1', 1, nameEnd)
    if (plugin !== 'mysql_native_password' && password !== '') throw new UnknownLoginError(`the login requires ${plugin}`)
    send(wire, sequence + 1, nativePassword(password, body.subarray(nameEnd + 1, nameEnd + 21)))
  }
}

/**
 * @param {string} password
 * @param {Buffer} scramble
 */
function nativePassword(password, scramble) {
  if (password === '') return Buffer.alloc(0)
  const once = sha1(Buffer.from(password))
  const mask = sha1(Buffer.concat([scramble, sha1(once)]))
  return Buffer.from(once.map((byte, index) => byte ^ (mask[index] ?? 0)))
}

/** @param {Wire} wire */
async function receive(wire) {
  const head = await wire.read(4)
  const body = await wire.read(head.readUIntLE(0, 3))
  // 0xff, a number, and a state of six characters, which is missing before the login.
  if (body[0] === 0xff) throw new Error(body.toString('utf8', 3).replace(/^#...../, ''))
  return { sequence: head[3] ?? 0, body }
}

/**
 * @param {Wire} wire
 * @param {number} sequence
 * @param {Buffer} body
 */
function send(wire, sequence, body) {
  const head = Buffer.alloc(4)
  head.writeUIntLE(body.length, 0, 3)
  head[3] = sequence
  wire.write(head, body)
}

/** @param {Buffer} data */
function sha1(data) {
  return createHash('sha1').update(data).digest()
}

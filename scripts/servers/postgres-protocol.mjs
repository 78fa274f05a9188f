// @ts-check
import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'
import { parseAddress } from './address.mjs'
import { Wire } from './wire.mjs'

/**
 * Runs one statement in the simple protocol, on a separate connection.
 *
 * @param {string} url
 * @param {string} sql
 * @returns {Promise<(string | null)[][]>} rows of text
 */
export async function queryPostgres(url, sql) {
  const { host, port, user = 'postgres', password = '', path, parameters } = parseAddress(url, 5432)
  const wire = await Wire.open({ host, port })
  try {
    if (/^(require|verify)/.test(parameters.get('sslmode') ?? '')) {
      wire.write(int32(8), int32(80877103))
      if ((await wire.read(1)).toString() !== 'S') throw new Error('the server offers no TLS')
      await wire.startTls()
    }
    const settings = text('user', user, 'database', path || user, '')
    wire.write(int32(8 + settings.length), int32(196608), settings)
    await logIn(wire, user, password)
    wire.write(message('Q', text(sql)))
    /** @type {(string | null)[][]} */
    const rows = []
    for (;;) {
      const { type, body } = await receive(wire)
      if (type === 'D') rows.push(readRow(body))
      if (type === 'Z') return rows
    }
  } finally {
    wire.write(message('X'))
    wire.close()
  }
}

/**
 * Logs in until the server is ready for a statement: trust, clear text, MD5 or SCRAM-SHA-256.
 *
 * @param {Wire} wire
 * @param {string} user
 * @param {string} password
 */
async function logIn(wire, user, password) {
  const first = `n=,r=${randomBytes(18).toString('base64')}`
  for (;;) {
    const { type, body } = await receive(wire)
    if (type === 'Z') return
    if (type !== 'R') continue
    const method = body.readInt32BE(0)
    if (method === 3) wire.write(message('p', text(password)))
    if (method === 5) {
      const inner = hash('md5', password + user).toString('hex')
      const outer = hash('md5', Buffer.concat([Buffer.from(inner), body.subarray(4, 8)])).toString('hex')
      wire.write(message('p', text(`md5${outer}`)))
    }
    if (method === 10) {
      const opening = Buffer.from(`n,,${first}`)
      wire.write(message('p', text('SCRAM-SHA-256'), int32(opening.length), opening))
    }
    if (method === 11) wire.write(message('p', Buffer.from(scramProof(password, first, body.subarray(4).toString()))))
    if (![0, 3, 5, 10, 11, 12].includes(method)) throw new Error(`the server requires login method ${method}`)
  }
}

/**
 * @param {string} password
 * @param {string} first the first message of the client
 * @param {string} challenge the challenge of the server
 */
function scramProof(password, first, challenge) {
  const [, nonce = '', salt = '', rounds = '1'] = /^r=([^,]*),s=([^,]*),i=(\d+)/.exec(challenge) ?? []
  const salted = pbkdf2Sync(password, Buffer.from(salt, 'base64'), Number(rounds), 32, 'sha256')
  const key = createHmac('sha256', salted).update('Client Key').digest()
  const final = `c=biws,r=${nonce}`
  const signature = createHmac('sha256', hash('sha256', key)).update(`${first},${challenge},${final}`).digest()
  return `${final},p=${Buffer.from(key.map((byte, index) => byte ^ (signature[index] ?? 0))).toString('base64')}`
}

/** @param {Wire} wire */
async function receive(wire) {
  const head = await wire.read(5)
  const type = String.fromCharCode(head[0] ?? 0)
  const length = head.readInt32BE(1)
  if (!/[A-Za-z0-9]/.test(type) || length < 4 || length > 1e6) throw new Error('it does not speak PostgreSQL')
  const body = await wire.read(length - 4)
  if (type !== 'E') return { type, body }
  const reason = body
    .toString()
    .split('\0')
    .find((field) => field.startsWith('M'))
  throw new Error(reason?.slice(1) ?? 'an error without a message')
}

/** @param {Buffer} body */
function readRow(body) {
  let offset = 2
  return Array.from({ length: body.readInt16BE(0) }, () => {
    const length = body.readInt32BE(offset)
    const start = offset + 4
    offset = start + Math.max(length, 0)
    return length < 0 ? null : body.toString('utf8', start, offset)
  })
}

/**
 * @param {string} type
 * @param {Buffer[]} parts
 */
function message(type, ...parts) {
  const body = Buffer.concat(parts)
  return Buffer.concat([Buffer.from(type), int32(body.length + 4), body])
}

/** @param {string[]} values each ends with a zero byte */
function text(...values) {
  return Buffer.from(values.map((value) => `${value}\0`).join(''))
}

/** @param {number} value */
function int32(value) {
  const buffer = Buffer.alloc(4)
  buffer.writeInt32BE(value)
  return buffer
}

/**
 * @param {string} algorithm
 * @param {string | Buffer} data
 */
function hash(algorithm, data) {
  return createHash(algorithm).update(data).digest()
}

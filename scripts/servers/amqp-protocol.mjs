// @ts-check
import { parseAddress } from './address.mjs'
import { Wire } from './wire.mjs'

const start = 10
const startOk = 11
const tune = 30
const tuneOk = 31
const open = 40
const openOk = 41
const close = 50
const closeOk = 51

/**
 * Logs in, opens the virtual host, and closes the connection properly.
 *
 * @param {string} url
 */
export async function greetAmqp(url) {
  const { host, port, secure, user = 'guest', password = 'guest', path } = parseAddress(url, 5672)
  const wire = await Wire.open({ host, port, secure })
  try {
    wire.write('AMQP\x00\x00\x09\x01')
    await expect(wire, start)
    const login = Buffer.from(`\0${user}\0${password}`)
    send(wire, startOk, int32(0), shortString('PLAIN'), int32(login.length), login, shortString('en_US'))
    const limits = await expect(wire, tune)
    send(wire, tuneOk, limits.subarray(0, 8))
    send(wire, open, shortString(path || '/'), shortString(''), Buffer.from([0]))
    await expect(wire, openOk)
    send(wire, close, Buffer.from([0, 200]), shortString('bye'), int32(0))
    await expect(wire, closeOk)
  } finally {
    wire.close()
  }
}

/**
 * @param {Wire} wire
 * @param {number} method of the class "connection"
 * @returns {Promise<Buffer>} its arguments
 */
async function expect(wire, method) {
  for (;;) {
    const head = await wire.read(7)
    if (head.toString('latin1', 0, 4) === 'AMQP') throw new Error('it speaks another version of AMQP')
    if (![1, 8].includes(head[0] ?? 0) || head.readUInt32BE(3) > 1e6) throw new Error('it does not speak AMQP 0-9-1')
    const body = await wire.read(head.readUInt32BE(3) + 1)
    if (head[0] === 8) continue // a heartbeat
    if (body.readUInt16BE(0) !== 10) throw new Error('it does not speak AMQP 0-9-1')
    const received = body.readUInt16BE(2)
    if (received === method) return body.subarray(4, -1)
    if (received === close) throw new Error(body.toString('utf8', 7, 7 + (body[6] ?? 0)))
  }
}

/**
 * @param {Wire} wire
 * @param {number} method
 * @param {Buffer[]} parts
 */
function send(wire, method, ...parts) {
  const body = Buffer.concat([Buffer.from([0, 10, 0, method]), ...parts])
  wire.write(Buffer.from([1, 0, 0]), int32(body.length), body, Buffer.from([0xce]))
}

/** @param {string} value */
function shortString(value) {
  const bytes = Buffer.from(value)
  return Buffer.concat([Buffer.from([bytes.length]), bytes])
}

/** @param {number} value */
function int32(value) {
  const buffer = Buffer.alloc(4)
  buffer.writeUInt32BE(value)
  return buffer
}

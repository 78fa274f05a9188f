// @ts-check
import { parseAddress } from './address.mjs'
import { Wire } from './wire.mjs'

const header = Buffer.from('AMQP\x03\x01\x00\x00', 'latin1')
const saslInit = 0x41
const saslOutcome = 0x44

/**
 * Logs in with SASL PLAIN.
 *
 * @param {string} url
 */
export async function greetAmqp10(url) {
  const { host, port, secure, user = 'guest', password = 'guest' } = parseAddress(url, 5672)
  const wire = await Wire.open({ host, port, secure })
  try {
    wire.write(header)
    const answer = await wire.read(header.length)
    if (answer.toString('latin1', 0, 4) !== 'AMQP') throw new Error('it does not speak AMQP')
    if (!answer.equals(header)) throw new Error('it speaks another version of AMQP')
    const fields = Buffer.concat([short(0xa3, Buffer.from('PLAIN')), short(0xa0, Buffer.from(`\0${user}\0${password}`))])
    const body = Buffer.concat([Buffer.from([0, 0x53, saslInit, 0xc0, fields.length + 1, 2]), fields])
    const head = Buffer.from([0, 0, 0, 0, 2, 1, 0, 0])
    head.writeUInt32BE(head.length + body.length)
    wire.write(head, body)
    const outcome = await readOutcome(wire)
    if (outcome !== 0) throw new Error('the login was refused')
  } finally {
    wire.close()
  }
}

/**
 * @param {Wire} wire
 * @returns {Promise<number>} zero if the login was accepted
 */
async function readOutcome(wire) {
  for (;;) {
    const size = (await wire.read(4)).readUInt32BE()
    if (size < 8 || size > 65_536) throw new Error('it does not speak AMQP 1.0')
    const frame = await wire.read(size - 4)
    const body = frame.subarray((frame[0] ?? 2) * 4 - 4)
    if (body[2] !== saslOutcome) continue // its mechanisms
    // A list, whose first field is the code as an unsigned byte.
    return body[body.indexOf(0x50, 3) + 1] ?? 1
  }
}

/**
 * @param {number} type
 * @param {Buffer} value of up to 255 bytes
 */
function short(type, value) {
  return Buffer.concat([Buffer.from([type, value.length]), value])
}

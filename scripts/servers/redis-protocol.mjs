// @ts-check
import { parseAddress } from './address.mjs'
import { Wire } from './wire.mjs'

/** @typedef {string | number | null | readonly unknown[]} Reply */

/**
 * Runs commands one after the other on a separate connection.
 *
 * @param {string} url
 * @param {(string | number)[][]} commands
 * @returns {Promise<Reply[]>} rejects at the first error reply
 */
export async function askRedis(url, ...commands) {
  const { host, port, secure, user, password, path } = parseAddress(url, 6379)
  const wire = await Wire.open({ host, port, secure })
  try {
    if (password !== undefined) await ask(wire, user === undefined ? ['AUTH', password] : ['AUTH', user, password])
    if (path !== '' && path !== '0') await ask(wire, ['SELECT', path])
    /** @type {Reply[]} */
    const replies = []
    for (const command of commands) replies.push(await ask(wire, command))
    return replies
  } finally {
    wire.close()
  }
}

/**
 * @param {Wire} wire
 * @param {(string | number)[]} command
 */
async function ask(wire, command) {
  const parts = command.map((part) => `$${Buffer.byteLength(String(part))}\r\n${part}\r\n`)
  wire.write(`*${command.length}\r\n${parts.join('')}`)
  return await readReply(wire)
}

/**
 * @param {Wire} wire
 * @returns {Promise<Reply>}
 */
async function readReply(wire) {
  const line = await wire.readLine()
  const rest = line.slice(1)
  switch (line[0]) {
    case '+':
      return rest
    case ':':
      return Number(rest)
    case '$': {
      if (rest === '-1') return null
      const text = (await wire.read(Number(rest))).toString()
      await wire.read(2)
      return text
    }
    case '*': {
      /** @type {Reply[]} */
      const replies = []
      while (replies.length < Number(rest)) replies.push(await readReply(wire))
      return replies
    }
    case '-':
      throw new Error(rest)
    default:
      throw new Error('it does not speak the protocol of Redis')
  }
}

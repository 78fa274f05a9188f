// @ts-check

import { unprivilegedAccount } from './account.mjs'
import { parseAddress } from './address.mjs'
import { findBinary } from './find-binary.mjs'
import { foreignRoot } from './foreign/root.mjs'
import { freePort } from './free-port.mjs'
import { requireBinary } from './require-binary.mjs'
import { startServer } from './server.mjs'
import { Wire } from './wire.mjs'

/** @type {import('./kind.mjs').Kind} */
export const nats = {
  name: 'nats',
  variable: 'NATS_URL',
  defaultPort: 4222,
  defaultUrl: 'nats://127.0.0.1:4222',
  debianPackage: 'nats-server',
  locate: () => findBinary('nats-server', [], foreignRoot('nats')),
  probe: greetNats,
  start: startNats,
}

/**
 * Reads the banner, which must offer JetStream, and logs in. If the server requires TLS, the banner is enough.
 *
 * @param {string} url
 */
async function greetNats(url) {
  const { host, port, user, password } = parseAddress(url, 4222)
  const wire = await Wire.open({ host, port })
  try {
    const banner = await wire.readLine()
    if (!banner.startsWith('INFO {')) throw new Error('it does not speak NATS')
    const information = JSON.parse(banner.slice(5))
    if (information.jetstream !== true) throw new Error('it runs without JetStream')
    if (information.tls_required === true) return
    const credentials = password === undefined ? { auth_token: user } : { user, pass: password }
    wire.write(`CONNECT ${JSON.stringify({ verbose: false, pedantic: false, ...credentials })}\r\nPING\r\n`)
    const answer = await wire.readLine()
    if (answer !== 'PONG') throw new Error(answer.replace(/^-ERR '?|'$/g, ''))
  } finally {
    wire.close()
  }
}

/**
 * @param {{ user: string; password: string }} [credentials] required by the server, and included in `url`. Default: none.
 * @returns {Promise<import('./server.mjs').Server>} with JetStream
 */
export async function startNats(credentials) {
  const binary = requireBinary(nats)
  const port = await freePort()
  const { user, password } = credentials ?? {}
  const url = `nats://${user === undefined ? '' : `${user}:${password}@`}127.0.0.1:${port}`
  const guard = user === undefined || password === undefined ? [] : ['--user', user, '--pass', password]

  return await startServer({
    name: 'nats',
    account: unprivilegedAccount('nats'),
    launch: (directory) => ({ file: binary, args: ['-a', '127.0.0.1', '-p', String(port), '-js', '-sd', directory, ...guard] }),
    ready: async () => {
      await greetNats(url)
      return url
    },
  })
}

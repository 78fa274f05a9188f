// @ts-check
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import net from 'node:net'

/** Ports assigned in this process; a server may take a while to bind its port. */
const taken = new Set()

/**
 * Returns a port below the range of outgoing ports (from 32768 on Linux), so that no client socket can occupy it first, and
 * low enough that a Redis Cluster bus at `port + 10000` stays below that range as well.
 *
 * @param {{ alsoAt?: number }} [options] `alsoAt`: the port this far above must be free too. Default: none.
 * @returns {Promise<number>}
 */
export async function freePort({ alsoAt } = {}) {
  for (let attempt = 0; attempt < 500; attempt++) {
    const port = randomInt(10_000, 22_000)
    const ports = alsoAt === undefined ? [port] : [port, port + alsoAt]
    if (ports.some((each) => taken.has(each))) continue
    if (!(await Promise.all(ports.map(canListen))).every(Boolean)) continue
    for (const each of ports) taken.add(each)
    return port
  }
  throw new Error('no free port between 10000 and 22000')
}

/** @param {number} port */
async function canListen(port) {
  const server = net.createServer()
  try {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    server.close()
    await once(server, 'close')
    return true
  } catch {
    return false
  }
}

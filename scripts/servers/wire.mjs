// @ts-check
import { once } from 'node:events'
import net from 'node:net'
import tls from 'node:tls'

const patience = 5_000

/**
 * A socket that is read by length, for the few protocol bytes that distinguish one server from another. Every wait ends
 * after five seconds, and with an error when the server closes the connection.
 */
export class Wire {
  /** @type {net.Socket} */
  #socket
  /** @type {Buffer} */
  #received = Buffer.alloc(0)
  /** @type {Error | undefined} */
  #failure
  #wake = () => {}

  /** @param {net.Socket} socket */
  constructor(socket) {
    this.#socket = socket
    this.#listen()
  }

  /** @param {{ host: string, port: number, secure?: boolean }} address */
  static async open({ host, port, secure = false }) {
    // Certificates are not verified: the connection only checks that the server answers, and tests use their own certificates.
    const socket = secure
      ? tls.connect({ host, port, servername: net.isIP(host) ? '' : host, rejectUnauthorized: false })
      : net.connect({ host, port })
    socket.setNoDelay(true)
    socket.setTimeout(patience, () => socket.destroy(new Error('no answer within 5 seconds')))
    await once(socket, secure ? 'secureConnect' : 'connect')
    return new Wire(socket)
  }

  /** @param {(Buffer | string)[]} parts */
  write(...parts) {
    this.#socket.write(Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part))))
  }

  /** @param {number} length */
  async read(length) {
    while (this.#received.length < length) await this.#more()
    return this.#take(length)
  }

  /** Reads up to the next CR LF, which is dropped. */
  async readLine() {
    let end = this.#received.indexOf('\r\n')
    while (end < 0) {
      if (this.#received.length > 65_536) throw new Error('answered with something else than lines')
      await this.#more()
      end = this.#received.indexOf('\r\n')
    }
    const line = this.#take(end).toString()
    this.#take(2)
    return line
  }

  /** Continues with TLS, for protocols that negotiate it in clear text. */
  async startTls() {
    this.#socket.removeAllListeners('data')
    this.#socket = tls.connect({ socket: this.#socket, rejectUnauthorized: false })
    await once(this.#socket, 'secureConnect')
    this.#listen()
  }

  /** Sends the buffered data and closes the connection; never throws. */
  close() {
    this.#socket.end(() => this.#socket.destroy())
  }

  #listen() {
    this.#socket.on('data', (chunk) => {
      this.#received = Buffer.concat([this.#received, chunk])
      this.#wake()
    })
    this.#socket.on('error', (error) => this.#fail(error))
    this.#socket.on('close', () => this.#fail(new Error('the connection was closed')))
  }

  /** @param {Error} error */
  #fail(error) {
    this.#failure ??= error
    this.#wake()
  }

  async #more() {
    if (this.#failure !== undefined) throw this.#failure
    const before = this.#received.length
    await new Promise((resolve) => {
      this.#wake = () => resolve(undefined)
    })
    if (this.#received.length === before && this.#failure !== undefined) throw this.#failure
  }

  /** @param {number} length */
  #take(length) {
    const taken = this.#received.subarray(0, length)
    this.#received = this.#received.subarray(length)
    return taken
  }
}

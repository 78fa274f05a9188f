import { InvalidOptionError, type Logger } from '@ackord/core'
import { checkFunction, PartPorts } from '@ackord/core/internal'
import { fieldOf, type MqttClient, type MqttServerProperties, reasonCode, reasonCodes } from './client.ts'

const watches = new WeakMap<MqttClient, ConnectionWatch>()

/**
 * Whether a client is connected. The client reconnects by itself; it stops for good when it is ended, when the broker refuses the connection, and with
 * `reconnectPeriod: 0`. One watch per client, shared by its sources and publishers; it also logs the errors of the client, which would end the process without a listener.
 */
export class ConnectionWatch {
  readonly #client: MqttClient
  readonly #ports = new PartPorts()
  readonly #listeners = new Set<() => void>()
  #up: boolean
  #over: { readonly cause: unknown } | undefined
  #limits: MqttServerProperties | undefined
  #sessionPresent: boolean | undefined
  #isResumed = false
  #connections: number
  #isReported = false

  private constructor(client: MqttClient) {
    this.#client = client
    this.#up = client.connected
    this.#connections = client.connected ? 1 : 0
    this.#limits = client.serverProperties
    if (client.disconnecting) this.#over = { cause: undefined }
    // Before 'connect', which the client emits after it has resent what was not confirmed; messages may arrive meanwhile.
    client.on('packetreceive', (packet) => {
      if (packet.cmd === 'connack' && fieldOf(packet, 'reasonCode') === 0) this.#accepted(packet)
    })
    client.on('connect', () => this.#change(true))
    client.on('close', () => {
      if (client.options.reconnectPeriod === 0) this.#over ??= { cause: undefined }
      this.#change(false)
    })
    client.on('end', () => this.#end(undefined))
    client.on('error', (error) => this.#failed(error))
    client.on('disconnect', (packet) => this.#disconnected(packet.reasonCode))
  }

  /** Checks the client. `logger` logs its failures; without one, the first part of the client that inherits a logger provides it. */
  static of(client: MqttClient, logger?: Logger): ConnectionWatch {
    checkClient(client)
    const watch = watches.get(client) ?? new ConnectionWatch(client)
    watches.set(client, watch)
    watch.#ports.inheritPorts({ logger })
    return watch
  }

  get isUp(): boolean {
    return this.#up
  }

  get logger(): Logger {
    return this.#ports.logger
  }

  /** Set when the client will not connect any more, with the reason if there is one. */
  get over(): { readonly cause: unknown } | undefined {
    return this.#over
  }

  /** The limits of the broker; `undefined` if they are not known: the client had connected before it was watched. */
  get limits(): MqttServerProperties | undefined {
    return this.#limits
  }

  /** Whether the broker had a session of the client; `undefined` before the first connection, and if that is not known. */
  get sessionPresent(): boolean | undefined {
    return this.#sessionPresent
  }

  /** Whether the first connection continued the session of an earlier client. */
  get isResumed(): boolean {
    return this.#isResumed
  }

  /** The number of connections, as far as they are known. */
  get connections(): number {
    return this.#connections
  }

  /** Calls the listener at each change. The returned function removes it. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Resolves when the client is connected or over, or when the signal is aborted. */
  async settled(signal: AbortSignal): Promise<void> {
    const isSettled = () => this.#up || this.#over !== undefined
    if (isSettled() || signal.aborted) return
    await this.#until(isSettled, signal)
  }

  /** Resolves when the connection is lost, or when the signal is aborted. */
  async lost(signal: AbortSignal): Promise<void> {
    await this.#until(() => !this.#up, signal)
  }

  async #until(isSo: () => boolean, signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const check = () => {
        if (!isSo() && !signal.aborted) return
        unwatch()
        signal.removeEventListener('abort', check)
        resolve()
      }
      const unwatch = this.onChange(check)
      signal.addEventListener('abort', check, { once: true })
      check()
    })
  }

  #accepted(packet: object): void {
    this.#limits = (fieldOf(packet, 'properties') as MqttServerProperties | undefined) ?? {}
    this.#sessionPresent = fieldOf(packet, 'sessionPresent') === true
    if (this.#connections === 0) this.#isResumed = this.#sessionPresent
    this.#connections += 1
  }

  #failed(error: Error): void {
    const isRefused = reasonCode(error) !== undefined && error.message.startsWith('Connection refused')
    // The client emits an error for each attempt to connect.
    if (!this.#isReported) this.logger.warn({ err: error }, 'The connection to the MQTT broker failed.')
    this.#isReported = true
    if (isRefused && this.#client.options.reconnectOnConnackError !== true) this.#end(error)
  }

  #disconnected(code: number | undefined): void {
    const { clientId } = this.#client.options
    if (code === reasonCodes.sessionTakenOver) this.logger.error({ clientId }, takenOver)
    else this.logger.warn({ clientId, reasonCode: code }, 'The MQTT broker ended the connection.')
  }

  #end(cause: unknown): void {
    this.#over = { cause }
    this.#change(false)
  }

  #change(up: boolean): void {
    this.#up = up
    if (up) {
      this.#over = undefined
      this.#isReported = false
    }
    for (const listener of [...this.#listeners]) listener()
  }
}

const takenOver =
  'Another client has connected with the same client id, and has the session and its messages now. Give each instance a client id of its own.'

function checkClient(client: MqttClient): void {
  if (typeof client !== 'object' || client === null || typeof client.options !== 'object' || client.options === null) {
    throw new InvalidOptionError('client', "must be a client, as connect() of 'mqtt' returns it.")
  }
  for (const method of ['publish', 'subscribe', 'handleMessage', 'removeOutgoingMessage', 'on'] as const) {
    checkFunction(`client.${method}`, client[method])
  }
  const { protocolVersion } = client.options
  if (protocolVersion !== undefined && protocolVersion !== 5) {
    throw new InvalidOptionError(
      'client',
      `must speak MQTT 5; its protocolVersion is ${protocolVersion}. Connect with { protocolVersion: 5 }: MQTT 3 has no user properties and no reason codes.`,
    )
  }
}

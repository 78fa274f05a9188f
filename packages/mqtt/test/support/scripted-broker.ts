import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { generate, type IConnackPacket, type IPublishPacket, type Packet, parser } from 'mqtt-packet'

/** The answers of a scripted broker, for what a real one does not do on request. Read for each answer. */
export interface Script {
  readonly connack?: Partial<IConnackPacket>
  /** The reason code of a subscription. Default: the QoS that the client asks for. */
  readonly granted?: number
  /** The reason code that answers a message with QoS 1. Default: 0. */
  readonly puback?: (packet: IPublishPacket) => number
}

export interface ScriptedBroker extends AsyncDisposable {
  readonly url: string
  /** The packets of all clients, in the order of arrival. */
  readonly received: readonly Packet[]
  /** Sends a packet to the clients that have subscribed. */
  send(packet: Packet): void
  /** Ends all connections, after what was sent. */
  cut(): void
}

export async function startScriptedBroker(script: Script = {}): Promise<ScriptedBroker> {
  const received: Packet[] = []
  const sockets = new Set<Socket>()
  const subscribed = new Set<Socket>()
  const version = { protocolVersion: 5 } as const

  function answerTo(packet: Packet): Packet | undefined {
    const { messageId } = packet
    switch (packet.cmd) {
      case 'connect':
        return { cmd: 'connack', sessionPresent: false, reasonCode: 0, ...script.connack }
      case 'subscribe':
        return { cmd: 'suback', granted: [script.granted ?? 1], ...(messageId !== undefined && { messageId }) }
      case 'publish':
        return { cmd: 'puback', reasonCode: script.puback?.(packet) ?? 0, ...(messageId !== undefined && { messageId }) }
      case 'pingreq':
        return { cmd: 'pingresp' }
      default:
        return undefined
    }
  }

  const server = createServer((socket) => {
    sockets.add(socket)
    const parsing = parser(version)
    parsing.on('packet', (packet: Packet) => {
      received.push(packet)
      if (packet.cmd === 'subscribe') subscribed.add(socket)
      const answer = answerTo(packet)
      if (answer !== undefined) socket.write(generate(answer, version))
    })
    socket.on('data', (bytes) => parsing.parse(bytes))
    socket.on('error', () => {})
    socket.on('close', () => {
      for (const set of [sockets, subscribed]) set.delete(socket)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The broker has no port.')

  return {
    url: `mqtt://127.0.0.1:${address.port}`,
    received,
    send(packet) {
      for (const socket of subscribed) socket.write(generate(packet, version))
    },
    cut() {
      for (const socket of sockets) socket.end()
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

import { once } from 'node:events'
import type { AddressInfo, Server } from 'node:net'
import rhea, { type Container } from 'rhea'

/** The peer of a connection, made of rhea: it answers as its test says, such as with outcomes that RabbitMQ does not use. */
export interface StandInBroker extends AsyncDisposable {
  readonly url: string
  /** Its listeners are the behaviour of the broker. Nothing is accepted or settled without one. */
  readonly container: Container
}

/** Refuses a link as brokers do: they attach it without what the client has asked for, and detach it with the reason. Called when it is attached. */
export function refuse(link: object, condition: string, description: string): void {
  const { local, close } = link as { readonly local: { readonly attach: object }; close(error: object): void }
  Object.assign(local.attach, { source: undefined, target: undefined })
  close.call(link, { condition, description })
}

/** `links` are rhea's options of the links that clients attach. */
export async function startStandInBroker(links: { readonly sender?: object; readonly receiver?: object } = {}): Promise<StandInBroker> {
  const container = rhea.create_container()
  container.sasl_server_mechanisms['enable_plain'](() => true)
  // rhea throws errors that have no listener.
  for (const event of ['connection_error', 'session_error', 'disconnected', 'error']) container.on(event, () => {})
  container.on('sender_open', ({ sender }) => sender?.set_source(sender.source))
  container.on('receiver_open', ({ receiver }) => receiver?.set_target(receiver.target))
  container.on('sender_draining', ({ sender }) => sender?.set_drained(true))
  const options = {
    host: '127.0.0.1',
    port: 0,
    receiver_options: { autoaccept: false, ...links.receiver },
    sender_options: { autosettle: false, rcv_settle_mode: 1, ...links.sender },
  }
  const server = container.listen(options as Parameters<Container['listen']>[0]) as Server
  if (!server.listening) await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `amqp://guest:guest@127.0.0.1:${port}`,
    container,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close')
      server.close()
      await closed
    },
  }
}

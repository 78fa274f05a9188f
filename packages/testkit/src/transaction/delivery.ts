import { type Context, Message, type Middleware, Router, type RouterOptions } from '@ackord/core'
import { recordingLogger } from '../recording-logger.ts'
import { sourceOf, type TrackedMessage } from '../tracked-message.ts'

export interface DeliveryOptions {
  /** Around the handler, outermost first. */
  readonly use: readonly Middleware[]
  readonly handle: (message: Message, context: Context) => Promise<readonly Message[] | void>
  readonly router?: RouterOptions | undefined
}

/** A router as services have it, for one handler of `order.place`. What it logs is kept from the console. */
export function routerOf({ use, handle, router = {} }: DeliveryOptions): Router {
  return new Router({ source: '/orders', logger: recordingLogger(), ...router }).use(...use).handle({
    type: 'order.place',
    handle: async (message, context) => (await handle(message, context)) ?? [],
  })
}

/** Delivers these messages and waits until each is handled. */
export async function deliver(options: DeliveryOptions, ...messages: readonly TrackedMessage[]): Promise<void> {
  await routerOf(options).run(sourceOf(...messages))
}

/** An event as handlers return it: without an id. */
export function placed(data: unknown, type = 'order.placed'): Message {
  return new Message(data, { type })
}

export function dataOf(events: readonly Message<Uint8Array>[]): unknown[] {
  return events.map(({ data }) => JSON.parse(new TextDecoder().decode(data)))
}

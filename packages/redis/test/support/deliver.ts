import { type Context, Message, type Middleware, Router, type RouterOptions, silentLogger } from '@ackord/core'
import { sourceOf, type TrackedMessage } from '@ackord/testkit'

export interface Delivery {
  readonly use: readonly Middleware[]
  readonly handle: (message: Message, context: Context) => Promise<readonly Message[] | void>
  readonly router?: RouterOptions | undefined
}

/** Delivers these messages to a router with the middleware of a service, and waits until each is settled. */
export async function deliver({ use, handle, router }: Delivery, ...messages: readonly TrackedMessage[]): Promise<void> {
  await new Router({ source: '/orders', logger: silentLogger, ...router })
    .use(...use)
    .handle({ type: 'order.place', handle: async (message, context) => (await handle(message, context)) ?? [] })
    .run(sourceOf(...messages))
}

/** An event as handlers return it: without an id. */
export function placed(data: unknown): Message {
  return new Message(data, { type: 'order.placed' })
}

/** The error with which the message was nacked or rejected. */
export function errorOf({ calls }: TrackedMessage): { readonly code?: string; readonly message: string; readonly retryAfter?: number } {
  return (calls[0]?.error ?? {}) as never
}

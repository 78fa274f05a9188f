import { type Channel, channel } from 'node:diagnostics_channel'

/** The events of a router and of what runs inside of it, each on the channel `ackord:` + its name. Relays have channels of their own: `ackord:outbox:published` and so on. */
export const channels: Readonly<Record<'handled' | 'failed' | 'settled' | 'duplicate' | 'transaction', Channel>> = {
  /** `{ message }`: the handler and all middleware have ended, and the outputs are delivered. */
  handled: named('router:handled'),
  /** `{ message, error, decision }`: the message was not handled. `decision` is what follows: `ack`, `nack`, `reject`, or `{ retryAfter }`. */
  failed: named('router:failed'),
  /** `{ message, verdict, failure }`: the message was acked, nacked or rejected. `failure` is set if the broker did not accept it. */
  settled: named('router:settled'),
  /** `{ message, consumer }`: the inbox has recognised a message that was handled before. */
  duplicate: named('inbox:duplicate'),
  /** `{ message, context, outcome }`: the transaction around a message has ended: `committed`, `rolledBack` or `unknown`. */
  transaction: named('transaction:ended'),
}

/** Publishes what `event` returns, which is only created if the channel has subscribers. Node reports errors of subscribers as uncaught exceptions. */
export function announce(to: Channel, event: () => object): void {
  if (to.hasSubscribers) to.publish(event())
}

function named(name: string): Channel {
  return channel(`ackord:${name}`)
}

/** The channels of a relay, by the type of the event. */
export function relayChannel(type: string): Channel {
  return named(`outbox:${type}`)
}

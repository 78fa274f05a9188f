import type { NatsHeaders, NatsMessage } from './client.ts'

/** A message of a stream, for the option `attributes`. */
export interface NatsStreamMessage {
  readonly subject: string
  readonly data: Uint8Array
  readonly headers: NatsHeaders | undefined
  readonly stream: string
  /** Its number in the stream. */
  readonly sequence: number
  /** When the stream took it. */
  readonly time: Date
  /** How often it was delivered, this time included. */
  readonly deliveryCount: number
}

/** One delivery: the message, and where the verdict goes. */
export interface StreamDelivery extends NatsStreamMessage {
  readonly reply: string
  /** Counts the deliveries of the consumer, to whomever. */
  readonly consumerSequence: number
  /** The same for each delivery of a message, and for no other one: a stream that is made again counts from the start. */
  readonly identity: string
}

/** `undefined` for what comes out of no stream. All that JetStream tells of a delivery is in the subject of its verdict. */
export function streamDelivery({ subject, data, headers, reply = '' }: NatsMessage): StreamDelivery | undefined {
  const tokens = reply.split('.')
  if (tokens[0] !== '$JS' || tokens[1] !== 'ACK') return undefined
  // $JS.ACK.stream.consumer.delivered.sequence.…; newer servers put domain and account before the stream.
  const first = tokens.length >= 11 ? 4 : 2
  const [stream = '', , delivered, sequence, consumerSequence, nanoseconds = ''] = tokens.slice(first)
  return {
    subject,
    data,
    headers,
    reply,
    stream,
    sequence: Number(sequence),
    deliveryCount: Number(delivered),
    consumerSequence: Number(consumerSequence),
    time: new Date(Number(nanoseconds) / 1_000_000),
    identity: `${sequence} ${nanoseconds}`,
  }
}

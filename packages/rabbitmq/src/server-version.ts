export interface ServerVersion {
  readonly major: number
  readonly minor: number
}

export type CountHeader = 'x-acquired-count' | 'x-delivery-count'

/** The version of the server that a channel is connected to; zeros if it is unknown. */
export function serverVersion(channel: object): ServerVersion {
  // A channel of amqplib refers to its connection, also after that was opened again.
  const { connection } = channel as { readonly connection?: { readonly serverProperties?: { readonly version?: unknown } } }
  const [major = 0, minor = 0] = String(connection?.serverProperties?.version ?? '')
    .split('.')
    .map((part) => Number.parseInt(part, 10) || 0)
  return { major, minor }
}

/**
 * The header in which a quorum queue counts earlier deliveries. Only this one is written by the server: up to 4.2 an `x-acquired-count` is the sender's, and
 * from 4.3 on an `x-delivery-count` is, because 4.3 no longer counts nacks there.
 */
export function countHeader({ major, minor }: ServerVersion): CountHeader {
  return major > 4 || (major === 4 && minor >= 3) ? 'x-acquired-count' : 'x-delivery-count'
}

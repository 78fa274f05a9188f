export interface ServerVersion {
  readonly major: number
  readonly minor: number
}

export type CountHeader = 'x-acquired-count' | 'x-delivery-count'

/** The version of the server behind a channel of amqplib; zeros if the client does not tell. */
export function serverVersion(channel: object): ServerVersion {
  // amqplib's channels have the connection that they belong to, also where it was made again.
  const { connection } = channel as { readonly connection?: { readonly serverProperties?: { readonly version?: unknown } } }
  const [major = 0, minor = 0] = String(connection?.serverProperties?.version ?? '')
    .split('.')
    .map((part) => Number.parseInt(part, 10) || 0)
  return { major, minor }
}

/**
 * The header in which a quorum queue counts earlier deliveries. Only this one is the server's own: up to 4.2 a sender's `x-acquired-count` stays as it is, and
 * from 4.3 on a sender's `x-delivery-count` does after nacks, which 4.3 does not count there any more.
 */
export function countHeader({ major, minor }: ServerVersion): CountHeader {
  return major > 4 || (major === 4 && minor >= 3) ? 'x-acquired-count' : 'x-delivery-count'
}

import { InvalidOptionError } from '@ackord/core'
import type { DiscoveryService } from '@nestjs/core'

const prefix = 'ackord:core:'

/** The token of an instance inside of the application. The public tokens follow from it, wherever they are visible. */
export function getCoreToken(instance: string): string {
  return `${prefix}${instance}`
}

/** The names of the instances of the application. */
export function listInstances(discovery: DiscoveryService): readonly string[] {
  const names = discovery
    .getProviders()
    .map(({ token }) => token)
    .filter((token): token is string => typeof token === 'string' && token.startsWith(prefix))
    .map((token) => token.slice(prefix.length))
  const repeated = names.find((name, index) => names.indexOf(name) !== index)
  if (repeated === undefined) return names
  throw new InvalidOptionError(
    'AckordModule',
    `is configured twice for the instance '${repeated}'. Call forRoot() or forRootAsync() once per instance, each with a \`name\`, and forFeature() elsewhere.`,
  )
}

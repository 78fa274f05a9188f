import { usageError } from '../output/errors.ts'
import type { ServiceUrl } from '../settings/urls.ts'

/** The settings of a client of the AWS SDK. What is missing comes from the environment. */
export interface AwsSettings {
  endpoint?: string
  region?: string
  credentials?: { accessKeyId: string; secretAccessKey: string }
}

/** `scheme` is that of the service over HTTP, such as `sqs`; the same with an `s` at the end is over TLS. */
export function awsSettings(option: string, scheme: string, url: ServiceUrl): AwsSettings {
  const { hosts, user, password, path, query } = url
  const [host, another] = hosts
  if (another !== undefined || path !== '') {
    throw usageError(
      `${option} has a path or several hosts, which a service of AWS has not.`,
      `Expected ${scheme}:, ${scheme}:?region=eu-central-1 or ${scheme}://host:port.`,
    )
  }
  const endpoint = host === undefined ? undefined : `${url.scheme === scheme ? 'http' : 'https'}://${host}`
  // An emulator accepts any region; AWS does not.
  const fallback = endpoint === undefined || process.env['AWS_REGION'] !== undefined ? undefined : 'us-east-1'
  const region = query.get('region') ?? fallback
  return {
    ...(endpoint !== undefined && { endpoint }),
    ...(region !== undefined && { region }),
    ...(user !== undefined && password !== undefined && { credentials: { accessKeyId: user, secretAccessKey: password } }),
  }
}

/** The access is denied by the policy of these credentials, which AWS knows. */
export function isDenied(error: unknown): boolean {
  return error instanceof Error && /^(AccessDenied|AuthorizationError)/.test(error.name)
}

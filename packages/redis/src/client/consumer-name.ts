import { hostname } from 'node:os'
// biome-ignore lint/style/noRestrictedImports: it is only read, so that operators find the process by its consumer.
import { pid } from 'node:process'
import type { Runtime } from '@ackord/core'

/** Unique: processes of one host, and pods that come and go under one name, must not share a consumer. */
export function consumerName(runtime: Runtime): string {
  return `${hostname()}-${pid}-${runtime.uuid().replaceAll('-', '').slice(0, 12)}`
}

import type { Runtime } from '@ackord/core'

/** Gives texts that nobody else has: one part for the process, and a number. A random one for each would be dear. */
export function tokenMaker(runtime: Runtime): () => string {
  const own = Buffer.from(runtime.uuid().replaceAll('-', ''), 'hex').toString('base64url')
  let made = 0
  return () => {
    made += 1
    return `${own}.${made.toString(36)}`
  }
}

import { InvalidOptionError } from '@ackord/core'
import { checkCount, checkDuration, checkNoMore } from '@ackord/core/internal'
import { internalsOf, type Redis } from '../redis.ts'

export interface WaitForReplicasOptions {
  /** How many replicas must have it. */
  readonly replicas: number
  /** Milliseconds. Shorter than the deadline of `redis`. */
  readonly timeout: number
}

/**
 * Waits until replicas have all that was written on this client's connection before, and resolves to how many of them do: fewer than asked for when the time
 * is over. They have it in memory: without a replica, or after all of them are lost, it is no more durable than before. What else is sent on the connection waits as well.
 */
export async function waitForReplicas(redis: Redis, options: WaitForReplicasOptions): Promise<number> {
  const { port, deadline } = internalsOf(redis)
  const { replicas, timeout, ...unknown } = options
  checkNoMore('waitForReplicas()', unknown)
  checkCount('replicas', replicas)
  checkDuration('timeout', timeout, { min: 1 })
  if (timeout >= deadline) throw new InvalidOptionError('timeout', `must be shorter than the deadline of ${deadline} ms; it is ${timeout}.`)
  if (port.cluster)
    throw new InvalidOptionError('waitForReplicas()', 'cannot be used on a cluster: its client does not tell which node it asks.')
  return Number(await port.send({ name: 'WAIT', args: [String(replicas), String(Math.ceil(timeout))], keys: [] }))
}

import { abortable } from './abortable.ts'
import { AckordError } from './errors.ts'
import type { Marshaler } from './marshaler.ts'
import { ackingOf, type Message, type RawMessage } from './message.ts'
import { checkResultCount, publishError } from './publish-results.ts'
import type { Publisher, PublishFailure, PublishResult } from './publisher.ts'
import { marshal, nameOf } from './stages.ts'

/** Where an output goes: always to one place, or as its content says. */
export type Destination = string | ((message: Message) => string)

export interface PublishOutputsOptions {
  /** The message they came from; it is settled by the router, not here. */
  readonly input: Message
  readonly publisher: Publisher
  readonly destination: Destination
  readonly marshaler: Marshaler
  readonly signal: AbortSignal
}

/**
 * Publishes the outputs of one message, those of one destination in one call, and settles each that has an acking of its own by its result.
 * Everything is marshalled before anything is sent. Rejects unless all are confirmed.
 */
export async function publishOutputs(outputs: readonly Message[], options: PublishOutputsOptions): Promise<void> {
  const groups = new Map<string, RawMessage[]>()
  for (const output of outputs) {
    const raw = marshal(output, options.marshaler)
    const destination = destinationOf(output, options.destination)
    const group = groups.get(destination)
    if (group === undefined) groups.set(destination, [raw])
    else group.push(raw)
  }
  for (const [destination, messages] of groups) await publishGroup(destination, messages, options)
}

async function publishGroup(destination: string, messages: readonly RawMessage[], options: PublishOutputsOptions): Promise<void> {
  const { publisher, signal, input } = options
  const results = await abortable(publisher.publish(destination, messages, { signal }), signal)
  checkResultCount(results, messages.length, destination)
  const failures: PublishFailure[] = []
  const inputAcking = ackingOf(input)
  for (const [index, result] of results.entries()) {
    if (!result.ok) failures.push(result)
    const message = messages[index]
    if (message !== undefined && ackingOf(message) !== inputAcking) await settle(message, result)
  }
  if (failures.length > 0) throw publishError(failures, messages.length, destination)
}

async function settle(message: RawMessage, result: PublishResult): Promise<void> {
  if (result.ok) await message.ack()
  else if (result.permanent === true) await message.reject(result.error)
  else await message.nack(result.error, { retryAfter: result.retryAfter })
}

function destinationOf(output: Message, destination: Destination): string {
  const chosen = typeof destination === 'function' ? destination(output) : destination
  if (typeof chosen === 'string' && chosen !== '') return chosen
  throw new AckordError('ACKORD_NO_OUTPUT', `The destination function gave no destination for ${nameOf(output)}.`)
}

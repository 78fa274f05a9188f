import { abortable } from './abortable.ts'
import { AckordError } from './errors.ts'
import type { Marshaler } from './marshaler.ts'
import { ackingOf, type Message, type RawMessage } from './message.ts'
import { checkResultCount, publishError } from './publish-results.ts'
import type { Publisher, PublishFailure } from './publisher.ts'
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
 * Publishes the outputs of one message, those of one destination in one call, and acks each that is confirmed and has an acking of its own.
 * Everything is marshalled before anything is sent. Rejects unless all are confirmed; the router then settles the input, and the others with it.
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
  signal.throwIfAborted()
  const results = await abortable(publisher.publish(destination, messages, { signal }), signal)
  checkResultCount(results, messages.length, destination)
  const failures: PublishFailure[] = []
  const inputAcking = ackingOf(input)
  for (const [index, result] of results.entries()) {
    const message = messages[index]
    if (!result.ok) failures.push(result)
    else if (message !== undefined && ackingOf(message) !== inputAcking) await acknowledge(message, input)
  }
  if (failures.length > 0) throw publishError(failures, messages.length, destination)
}

async function acknowledge(output: RawMessage, input: Message): Promise<void> {
  try {
    await output.ack()
  } catch (failure) {
    // Through the last output the input was acked, and its broker did not take that: the router reports it.
    if (input.state !== 'acked') throw failure
  }
}

function destinationOf(output: Message, destination: Destination): string {
  const chosen = typeof destination === 'function' ? destination(output) : destination
  if (typeof chosen === 'string' && chosen !== '') return chosen
  throw new AckordError('ACKORD_NO_OUTPUT', `The destination function gave no destination for ${nameOf(output)}.`)
}

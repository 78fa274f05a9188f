import { abortable, linkedController } from '../async/abort.ts'
import { groupBy } from '../async/collections.ts'
import { checkResults, type Publisher } from '../broker/publisher.ts'
import { AckordError } from '../errors.ts'
import { describeMessage, marshal } from '../message/marshal.ts'
import type { Marshaler } from '../message/marshaler.ts'
import { ackingOf, isMessage, type Message, type RawMessage } from '../message/message.ts'
import { outputDestinationKey } from '../message/output-destination.ts'
import type { CodecChain } from '../payload/codec-chain.ts'
import { redactDestination } from '../ports/redact.ts'
import type { Runtime } from '../ports/runtime.ts'

/** The destination of outputs: a fixed name, or a function of the message. */
export type Destination = string | ((message: Message) => string)

export interface PublishOutputsOptions {
  readonly publisher: Publisher
  readonly destination: Destination
  readonly marshaler: Marshaler
  readonly codecs: CodecChain | undefined
  readonly signal: AbortSignal
  /** The time limit of a publisher in milliseconds. */
  readonly timeout: number
  readonly runtime: Runtime
}

/**
 * Publishes the outputs of one message, with one call per destination. When all are confirmed, each that has an acking of its own is acked: acked
 * earlier, an output could ack its input while another is lost. All outputs are marshalled before the first is sent. Rejects unless all are
 * confirmed; the router then settles the input, and the others with it.
 */
export async function publishOutputs(outputs: readonly Message[], options: PublishOutputsOptions): Promise<void> {
  const { codecs, destination: chosen, marshaler, signal } = options
  const groups: [string, readonly RawMessage[]][] = []
  for (const [destination, own] of groupBy(outputs, (output) => destinationOf(output, chosen))) {
    groups.push([destination, own.map((output) => marshal(output, marshaler))])
  }
  if (codecs !== undefined) for (const group of groups) group[1] = await codecs.encodeAll(group[1], signal)
  for (const [destination, messages] of groups) await publishGroup(destination, messages, options)
}

/** Settles outputs with an acking of their own, once all were delivered. */
export async function acknowledgeOutputs(outputs: readonly Message[], input: Message): Promise<void> {
  const inputAcking = ackingOf(input)
  for (const output of outputs) if (ackingOf(output) !== inputAcking) await acknowledge(output, input)
}

async function publishGroup(destination: string, messages: readonly RawMessage[], options: PublishOutputsOptions): Promise<void> {
  const { publisher, runtime, timeout } = options
  using controller = linkedController(options.signal)
  const { signal } = controller
  signal.throwIfAborted()
  const timer = runtime.setTimeout(() => controller.abort(tooLong(destination, timeout)), timeout)
  try {
    checkResults(await abortable(publisher.publish(destination, messages, { signal }), signal), messages.length, destination)
  } finally {
    timer.cancel()
  }
}

function tooLong(destination: string, timeout: number): AckordError {
  return new AckordError(
    'ACKORD_PUBLISH_FAILED',
    `The publisher for '${redactDestination(destination)}' did not answer within the publishTimeout of ${timeout} ms.`,
  )
}

async function acknowledge(output: Message, input: Message): Promise<void> {
  try {
    await output.ack()
  } catch (failure) {
    // Through the last output the input was acked, and its broker did not accept that: the router reports it.
    if (input.state !== 'acked') throw failure
  }
}

/** Also for outboxes. Throws if the function returns none. */
export function destinationOf(output: Message, destination: Destination): string {
  // A message of another copy of the package has no values that could be read here.
  const own = isMessage(output) ? output.value(outputDestinationKey) : undefined
  const chosen = own ?? (typeof destination === 'function' ? destination(output) : destination)
  if (typeof chosen === 'string' && chosen !== '') return chosen
  throw new AckordError('ACKORD_NO_OUTPUT', `The destination function returned no destination for ${describeMessage(output)}.`)
}

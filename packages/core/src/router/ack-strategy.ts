import { chainAcking, forkAcking } from '../message/acking.ts'
import { ackingOf, inheritValues, type Message, withAcking, withData } from '../message/message.ts'

/**
 * When a message is settled; with all three an error nacks or rejects it.
 * - `onSuccess`: acked once it was handled and its outputs were delivered: published, or read from the pipe.
 * - `forward`: acked when all of its outputs are; the first output that is nacked or rejected decides. Without outputs it is acked immediately.
 * - `manual`: settled by the handler.
 */
export type AckStrategy = 'onSuccess' | 'forward' | 'manual'

/**
 * Ties the outputs to their input: each is settled on its own, and the input through them. An output's own acking is chained, not dropped. The
 * input's in-process values are copied to outputs that have none.
 */
export function forwardAcking(input: Message, outputs: readonly Message[]): readonly Message[] {
  const acking = ackingOf(input)
  if (acking?.state === 'acked') return outputs
  const forks = acking === undefined ? [] : forkAcking(acking, outputs.length)
  return outputs.map((output, index) => {
    const fork = forks[index]
    if (fork === undefined) {
      // Not the handler's own object: it may return the same one for every message.
      const twin = withData(output, output.data, output.attributes)
      inheritValues(twin, input)
      return twin
    }
    const own = ackingOf(output)
    // The input itself, or a copy of it, as output: its acking is the one that the forks lead to.
    const forwarded = withAcking(output, own === undefined || own === acking ? fork : chainAcking(own, fork))
    inheritValues(forwarded, input)
    return forwarded
  })
}

import type { Message } from '../message.ts'

/** The outputs, those without the attribute replaced by copies that have it. An empty text counts as none, as in `missingAttributes()`. */
export function fillAttribute(
  outputs: readonly Message[],
  name: 'correlationid' | 'subject',
  valueFor: (output: Message) => string | undefined,
): readonly Message[] {
  return outputs.map((output) => {
    const present = output.attributes[name]
    if (present !== undefined && present !== '') return output
    const value = valueFor(output)
    return value === undefined || value === '' ? output : output.withAttributes({ [name]: value })
  })
}

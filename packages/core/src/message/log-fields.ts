import type { Message } from './message.ts'

/** The fields by which log lines identify a message: its names and where it came from, never its content. Names that it does not have are absent. */
export function logFields(message: Message): Readonly<Record<string, string | number>> {
  const { type, id, source, origin, deliveryCount } = message
  const fields: Record<string, string | number> = {}
  for (const [name, value] of Object.entries({ type, id, source, origin, deliveryCount })) if (value !== undefined) fields[name] = value
  return fields
}

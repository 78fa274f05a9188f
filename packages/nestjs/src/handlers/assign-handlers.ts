import { InvalidOptionError } from '@ackord/core'
import type { FoundHandler } from './find-handlers.ts'

/** The defaults that `AckordModule.forFeature()` sets for the handlers of the module that imports it. */
export interface HandlerScope {
  readonly instance?: string | undefined
  readonly consumer?: string | undefined
}

/** The token under which `AckordModule.forFeature()` leaves its options. */
export const scopeToken = 'ackord:scope'

/** The name of the instance that a handler belongs to. */
export function instanceOf(found: FoundHandler, names: readonly string[], byDefault: string): string {
  const { where, metadata } = found
  const asked = metadata.options.instance ?? scopeOf(found).instance
  if (asked !== undefined) {
    if (names.includes(asked)) return asked
    throw new InvalidOptionError(where, `belongs to the instance '${asked}', and there is none of this name. There is ${listed(names)}.`)
  }
  const [only] = names
  if (names.includes(byDefault)) return byDefault
  if (only !== undefined && names.length === 1) return only
  throw new InvalidOptionError(where, `must name its instance, one of ${listed(names)}: @OnEvent(…, { instance }).`)
}

/** The name of the consumer that a handler asks for. */
export function askedConsumer(found: FoundHandler): string | undefined {
  return found.metadata.options.consumer ?? scopeOf(found).consumer
}

/** The name of the consumer that a handler belongs to. */
export function consumerOf(found: FoundHandler, names: readonly string[]): string {
  const { where } = found
  const asked = askedConsumer(found)
  if (names.length === 0) {
    throw new InvalidOptionError(
      where,
      'has no consumer: its instance has neither `consumer` and `source` nor `consumers`. In a process that handles no messages, set `handleMessages: false`.',
    )
  }
  if (asked !== undefined) {
    if (names.includes(asked)) return asked
    throw new InvalidOptionError(where, `belongs to the consumer '${asked}', and there is none of this name. There is ${listed(names)}.`)
  }
  const [only] = names
  if (only !== undefined && names.length === 1) return only
  throw new InvalidOptionError(where, `must name its consumer, one of ${listed(names)}: @OnEvent(…, { consumer }).`)
}

/** The options of the `AckordModule.forFeature()` that the module of the handler imports. */
function scopeOf({ wrapper }: FoundHandler): HandlerScope {
  for (const imported of wrapper.host?.imports ?? []) {
    const scope = imported.providers.get(scopeToken)?.instance as HandlerScope | undefined
    if (scope !== undefined) return scope
  }
  return {}
}

function listed(names: readonly string[]): string {
  return names.map((name) => `'${name}'`).join(', ')
}

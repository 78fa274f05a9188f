import { systemRuntime } from '@ackord/core'
import { InvalidArgumentError } from 'commander'

const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** For help and errors. */
export const durationForms = '500ms, 30s, 5m, 24h or 7d; a number without a unit is milliseconds'

/** A hundred years: every database can calculate with it. */
const longest = 36_500

/** `500ms`, `30s`, `5m`, `24h`, `7d`, or a number of milliseconds. */
export function parseDuration(text: string): number {
  const [, amount, unit = 'ms'] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text.trim()) ?? []
  if (amount === undefined) throw new InvalidArgumentError(`Write it as ${durationForms}.`)
  const duration = Number(amount) * units[unit as keyof typeof units]
  if (duration > longest * units.d) throw new InvalidArgumentError(`It must be at most ${longest}d.`)
  return duration
}

/** `50/s`, `30/m`, `500/h`, or a number per second. Returns a number per second. */
export function parseRate(text: string): number {
  const [, amount, unit = 's'] = /^(\d+(?:\.\d+)?)(?:\/([smh]))?$/.exec(text.trim()) ?? []
  const rate = (Number(amount) * 1000) / units[unit as 's' | 'm' | 'h']
  if (!(rate > 0)) throw new InvalidArgumentError('Write it as 50/s, 30/m or 500/h.')
  return rate
}

/** An instant such as `2026-01-31T12:00:00Z`, or how long ago it was: `2h`. Returns milliseconds since the epoch. */
export function parseInstant(text: string): number {
  const instant = /^\d{4}-/.test(text) ? Date.parse(text) : instantBefore(text)
  if (Number.isNaN(instant)) throw new InvalidArgumentError('Write it as 2026-01-31T12:00:00Z, or as 30m, 2h or 7d ago.')
  return instant
}

function instantBefore(text: string): number {
  const [, amount, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text.trim()) ?? []
  // biome-ignore lint/plugin: letters have the instant of their rejection, by the wall clock of a service.
  return systemRuntime.now() - Number(amount) * units[unit as keyof typeof units]
}

/** For people: the two largest units that are not zero. */
export function formatDuration(duration: number): string {
  if (duration < 1000) return `${Math.round(duration)} ms`
  return partsOf(duration).slice(0, 2).join(' ')
}

/** For errors that compare durations: nothing is rounded. */
export function exactDuration(duration: number): string {
  const parts = partsOf(duration)
  const rest = duration % 1000
  return [...parts, ...(rest > 0 || parts.length === 0 ? [`${rest} ms`] : [])].join(' ')
}

function partsOf(duration: number): readonly string[] {
  const parts: string[] = []
  let rest = duration
  for (const unit of ['d', 'h', 'm', 's'] as const) {
    const amount = Math.floor(rest / units[unit])
    rest -= amount * units[unit]
    if (amount > 0) parts.push(`${amount} ${unit === 'm' ? 'min' : unit}`)
  }
  return parts
}

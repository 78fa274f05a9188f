import { InvalidArgumentError } from 'commander'

const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** `500ms`, `30s`, `5m`, `24h`, `7d`, or a number of milliseconds. */
export function parseDuration(text: string): number {
  const [, amount, unit = 'ms'] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text.trim()) ?? []
  if (amount === undefined) throw new InvalidArgumentError('Write it as 500ms, 30s, 5m, 24h or 7d.')
  return Number(amount) * units[unit as keyof typeof units]
}

/** For people: the two largest units that are not zero. */
export function formatDuration(duration: number): string {
  if (duration < 1000) return `${Math.round(duration)} ms`
  const parts: string[] = []
  let rest = duration
  for (const unit of ['d', 'h', 'm', 's'] as const) {
    const amount = Math.floor(rest / units[unit])
    rest -= amount * units[unit]
    if (amount > 0) parts.push(`${amount} ${unit}`)
  }
  return parts.slice(0, 2).join(' ')
}

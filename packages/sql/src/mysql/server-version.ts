import { SchemaError } from '../errors.ts'

/** The oldest with SKIP LOCKED; on MySQL also with checks that are kept. */
const oldest = { MariaDB: [10, 6, 0], MySQL: [8, 0, 16] } as const

/** Throws at a server that the statements would fail on, or that would not keep the checks. `version` is what VERSION() says. */
export function checkServerVersion(version: string): void {
  const kind = /mariadb/i.test(version) ? 'MariaDB' : 'MySQL'
  // Some MariaDB servers put `5.5.5-` before their version, for old replicas.
  const numbers = /(\d+)\.(\d+)\.(\d+)/.exec(version.replace(/^5\.5\.5-/, ''))
  if (numbers === null) return
  const found = numbers.slice(1).map(Number)
  const needed = oldest[kind]
  for (const [index, number] of needed.entries()) {
    const difference = (found[index] ?? 0) - number
    if (difference > 0) return
    if (difference < 0) {
      throw new SchemaError(
        'older',
        `The server is ${kind} ${found.join('.')}, and the outbox needs ${kind} ${needed.join('.')}: older ones have no SKIP LOCKED${kind === 'MySQL' ? ' or do not keep checks' : ''}.`,
      )
    }
  }
}

import { usageError } from '../output/errors.ts'

/** Repeatable. Not separated by commas: the URL of a Redis Cluster has commas between its nodes. */
export function parseUrls(text: string, previous: unknown): readonly string[] {
  return [...(Array.isArray(previous) ? (previous as string[]) : []), text]
}

/** By the given names, or by the kinds of the servers: `postgres`, `redis`, `redis-2`. */
export function namedUrls(option: string, urls: readonly string[]): ReadonlyMap<string, string> {
  const what = option === '--broker' ? 'brokers' : 'stores'
  const byName = new Map<string, string>()
  for (const text of urls) {
    const [, given, url = text] = /^([a-z0-9][a-z0-9_.-]*)=(.+)$/i.exec(text) ?? []
    const kind = given ?? url.slice(0, Math.max(0, url.indexOf(':')))
    if (given !== undefined && byName.has(given)) throw usageError(`${option} has two ${what} with the name '${given}'.`)
    let name = kind
    for (let number = 2; byName.has(name); number += 1) name = `${kind}-${number}`
    byName.set(name, url)
  }
  return byName
}

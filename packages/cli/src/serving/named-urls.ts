import { usageError } from '../output/errors.ts'

/** By the given names, or by the kinds of the servers: `postgres`, `redis`, `redis-2`. */
export function namedUrls(option: string, urls: readonly string[]): ReadonlyMap<string, string> {
  const byName = new Map<string, string>()
  for (const text of urls) {
    const [, given, url = text] = /^([a-z0-9][a-z0-9_.-]*)=(.+)$/i.exec(text) ?? []
    const kind = given ?? url.slice(0, Math.max(0, url.indexOf(':')))
    if (given !== undefined && byName.has(given)) throw usageError(`${option} has two ${option.slice(2)}s with the name '${given}'.`)
    let name = kind
    for (let number = 2; byName.has(name); number += 1) name = `${kind}-${number}`
    byName.set(name, url)
  }
  return byName
}

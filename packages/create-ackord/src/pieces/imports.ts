import type { Imports } from './piece.ts'

/** Combines the imports of pieces into the statements of one file, sorted as Biome sorts them. */
export function importStatements(...lists: readonly Imports[]): string {
  const modules = new Map<string, Set<string>>()
  for (const list of lists) {
    for (const [from, names] of Object.entries(list)) modules.set(from, new Set([...(modules.get(from) ?? []), ...names]))
  }
  return [...modules]
    .sort(([one], [other]) => distance(one) - distance(other) || compare(withoutExtension(one), withoutExtension(other)))
    .map(([from, names]) => `import ${clause([...names])} from '${from}'`)
    .join('\n')
}

/** Modules of Node first, then packages, then files. */
function distance(module: string): number {
  return module.startsWith('node:') ? 0 : module.startsWith('.') ? 2 : 1
}

/** `redis.ts` is before `redis-orders.ts`. */
function withoutExtension(module: string): string {
  return module.replace(/\.ts$/, '')
}

function clause(names: readonly string[]): string {
  const bare = (name: string) => name.replace(/^type /, '')
  const sorted = names.toSorted((one, other) => compare(bare(one), bare(other)))
  if (sorted.every((name) => name.startsWith('type '))) return `type { ${sorted.map(bare).join(', ')} }`
  return `{ ${sorted.join(', ')} }`
}

/** Letter by letter, a capital before its small letter. */
function compare(one: string, other: string): number {
  for (let index = 0; index < Math.min(one.length, other.length); index += 1) {
    const difference = rank(one.charAt(index)) - rank(other.charAt(index))
    if (difference !== 0) return difference
  }
  return one.length - other.length
}

function rank(letter: string): number {
  const small = letter.toLowerCase()
  return small.charCodeAt(0) * 2 + (letter === small ? 1 : 0)
}

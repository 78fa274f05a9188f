// @ts-check
// Draws the packages and their rooms from the actual imports, as Mermaid, into ARCHITECTURE.md. A test compares the two.
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { cruisePackages } from './cruise.mjs'

/** The packages whose rooms are drawn; the others have three rooms or fewer, or none that import each other. */
const drawn = ['core', 'outbox', 'sql', 'redis']

/** Escapes names that Mermaid would parse as keywords or links. @param {string} name */
const node = (name) => `${name.replaceAll('-', '_')}[${name}]`

/** @param {string} file */
function placeOf(file) {
  const [, name = '', rest = ''] = /^packages\/([^/]+)\/src\/(.+)$/.exec(file) ?? []
  return { name, room: rest.includes('/') ? (rest.split('/')[0] ?? '') : '' }
}

/**
 * Omits edges that follow from others: with a → b and b → c, a → c is not drawn.
 *
 * @param {ReadonlyMap<string, ReadonlySet<string>>} edges
 * @returns {[string, string][]}
 */
function reduced(edges) {
  /** @param {string} from @param {string} to @param {Set<string>} seen @returns {boolean} */
  const reaches = (from, to, seen = new Set()) =>
    [...(edges.get(from) ?? [])].some((next) => next === to || (!seen.has(next) && reaches(next, to, seen.add(next))))
  return [...edges]
    .flatMap(([from, targets]) =>
      [...targets]
        .filter((to) => ![...targets].some((other) => other !== to && !reaches(to, other) && reaches(other, to)))
        .map((to) => /** @type {[string, string]} */ ([from, to])),
    )
    .sort(([a, b], [c, d]) => a.localeCompare(c) || b.localeCompare(d))
}

/** @param {ReadonlyMap<string, ReadonlySet<string>>} edges */
const flowchart = (edges) =>
  ['```mermaid', 'flowchart LR', ...reduced(edges).map(([from, to]) => `  ${node(from)} --> ${node(to)}`), '```'].join('\n')

/**
 * The map as Markdown.
 *
 * @param {string} folder
 */
export async function roomMap(folder) {
  const { modules } = await cruisePackages(folder)
  /** @type {Map<string, Set<string>>} */
  const packages = new Map()
  /** @type {Map<string, Map<string, Set<string>>>} */
  const rooms = new Map(drawn.map((name) => [name, new Map()]))
  /** @param {Map<string, Set<string>>} edges @param {string} from @param {string} to */
  const add = (edges, from, to) => void edges.set(from, (edges.get(from) ?? new Set()).add(to))
  for (const { source, dependencies } of modules) {
    const from = placeOf(source)
    for (const { resolved } of dependencies) {
      const to = placeOf(resolved)
      if (to.name === '') continue
      if (from.name !== to.name) add(packages, from.name, to.name)
      else if (from.room !== '' && to.room !== '' && from.room !== to.room) add(rooms.get(from.name) ?? new Map(), from.room, to.room)
    }
  }
  return [flowchart(packages), ...drawn.map((name) => `\`packages/${name}/src\`:\n\n${flowchart(rooms.get(name) ?? new Map())}`)].join(
    '\n\n',
  )
}

export const beginning = '<!-- map: made by scripts/rooms/map.mjs -->'
export const end = '<!-- /map -->'

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const page = readFileSync(`${root}ARCHITECTURE.md`, 'utf8')
  const [before = '', rest = ''] = page.split(beginning)
  const [, after = ''] = rest.split(end)
  writeFileSync(`${root}ARCHITECTURE.md`, `${before}${beginning}\n\n${await roomMap(root)}\n\n${end}${after}`)
}

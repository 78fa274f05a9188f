// @ts-check
// The results of the last runs of `make proof`, by table. A run replaces the results of what it ran and keeps the rest.

/**
 * @typedef {object} Run
 * @property {string} node
 * @property {Readonly<Record<string, string>>} servers version by name
 *
 * @typedef {object} Column the results of one implementation
 * @property {string} run its time, ISO 8601
 * @property {Readonly<Record<string, string>>} cells by scenario
 *
 * @typedef {object} Figures
 * @property {string} run
 * @property {unknown} values
 *
 * @typedef {object} Results
 * @property {Record<string, Run>} runs by their instant
 * @property {Record<string, Record<string, Column>>} tables by name, then by implementation
 * @property {Record<string, Figures>} figures
 *
 * @typedef {object} Table
 * @property {string} name
 * @property {readonly string[]} implementations
 * @property {readonly { readonly scenario: string, readonly cells: readonly string[] }[]} rows
 */

/** @type {Results} */
export const noResults = { runs: {}, tables: {}, figures: {} }

const notRun = '–'

/**
 * Parses the Markdown tables in the output of a program, as `formatTable()` of the testkit writes them. Colours and other lines are ignored.
 *
 * @param {string} text
 * @returns {readonly Table[]}
 */
export function findTables(text) {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colour codes begin with one.
  const lines = text.replaceAll(/\x1b\[[0-9;]*m/g, '').split('\n')
  /** @type {Table[]} */
  const tables = []
  for (const [index, line] of lines.entries()) {
    if (!/^\|(?: -{3,} \|)+$/.test(line)) continue
    const [name = '', ...implementations] = cellsOf(lines[index - 1] ?? '')
    const end = lines.findIndex((other, place) => place > index && !other.startsWith('| '))
    const body = lines.slice(index + 1, end === -1 ? undefined : end)
    const rows = body.map(cellsOf).map(([scenario = '', ...cells]) => ({ scenario, cells }))
    if (name !== '' && implementations.length > 0 && rows.length > 0) tables.push({ name, implementations, rows })
  }
  return tables
}

/**
 * @param {string} line
 * @returns {string[]}
 */
function cellsOf(line) {
  if (!line.startsWith('| ')) return []
  return line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'))
}

/**
 * @param {Results} before
 * @param {{ readonly at: string, readonly run: Run, readonly tables: readonly Table[], readonly figures: Readonly<Record<string, unknown>> }} found
 * @returns {Results}
 */
export function mergeResults(before, { at, run, tables, figures }) {
  /** @type {Results} */
  const results = structuredClone(before)
  results.runs[at] = run
  for (const { name, implementations, rows } of tables) {
    const table = results.tables[name] ?? {}
    results.tables[name] = table
    for (const [index, implementation] of implementations.entries()) {
      const ran = rows.flatMap(({ scenario, cells }) => {
        const cell = cells[index] ?? notRun
        return cell === notRun ? [] : [[scenario, cell]]
      })
      const known = table[implementation]
      // The same column in two tables of one run is merged into one.
      const cells = { ...(known?.run === at ? known.cells : {}), ...Object.fromEntries(ran) }
      if (ran.length > 0) table[implementation] = { run: at, cells }
    }
  }
  for (const [name, values] of Object.entries(figures)) results.figures[name] = { run: at, values }
  return withoutOldRuns(results)
}

/** @param {Results} results */
function withoutOldRuns(results) {
  const columns = Object.values(results.tables).flatMap((table) => Object.values(table))
  const used = new Set([...columns, ...Object.values(results.figures)].map(({ run }) => run))
  return { ...results, runs: Object.fromEntries(Object.entries(results.runs).filter(([at]) => used.has(at))) }
}

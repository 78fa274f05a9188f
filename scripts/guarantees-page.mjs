// @ts-check
import { promise } from './guarantees-promise.mjs'

/** @typedef {import('./guarantees-results.mjs').Results} Results */

const head = `# Guarantees

Each sentence of the promise, the tests that show it, and what the last runs of \`make proof\` found. This page is written by \`make proof\`
(\`scripts/guarantees.mjs\`): change the sentences and their tests in \`scripts/guarantees-promise.mjs\`, and the results by running it.

> ${promise.map(({ text }) => text).join(' ')}

The tests of the testkit's suites run on every store: PostgreSQL, MariaDB, SQLite and Redis by each of their clients and ORMs, and in memory. (In \`make test\` the suites of outbox, relay and order are
whole with one client per database, and short with the others.) Each of their scenarios has a mutant, a copy with that one rule broken, which it must catch.
`

/**
 * @param {Results} results
 * @returns {string} docs/guarantees.md
 */
export function renderPage(results) {
  const names = Object.keys(results.tables)
  return [
    head,
    '## The promise, sentence by sentence\n',
    ...promise.map((sentence) => renderSentence(sentence, names)),
    '## Results\n',
    names.length === 0 ? 'There are none yet: run `make proof`.\n' : renderSummary(results),
    ...Object.entries(results.tables).map(([name, table]) => `### ${capital(name)}\n\n${renderTable(name, table)}`),
    ...Object.entries(results.figures).map(
      ([name, { run, values }]) => `### ${capital(name)}, in figures\n\n${renderFigures(values)}\nRun of ${dayOf(run)}.\n`,
    ),
    '## What it ran on\n',
    renderRuns(results),
  ].join('\n')
}

/**
 * @param {import('./guarantees-promise.mjs').Sentence} sentence
 * @param {readonly string[]} names of the existing tables
 */
function renderSentence({ text, meaning, tests, tables }, names) {
  const shown = tables.filter((name) => names.includes(name)).map((name) => `[${name}](#${anchorOf(name)})`)
  const lines = tests.map(({ file, title }) => `- [\`${file}\`](../${file}): ${title}`)
  return [
    `### ${text.replaceAll('**', '')}\n`,
    `${meaning}\n`,
    ...lines,
    ...(shown.length > 0 ? [`- tables: ${shown.join(', ')}`] : []),
    '',
  ].join('\n')
}

/** @param {Results} results */
function renderSummary({ tables, figures }) {
  const rows = Object.entries(tables).flatMap(([name, columns]) =>
    Object.entries(columns).map(([implementation, { run, cells }]) => {
      const results = Object.values(cells)
      const failed = results.filter((cell) => !cell.startsWith('passed')).length
      return [`[${name}](#${anchorOf(name)})`, implementation, `${results.length - failed} passed, ${failed} failed`, dayOf(run)]
    }),
  )
  for (const [name, { run }] of Object.entries(figures))
    rows.push([`[${name}](#${anchorOf(`${name}, in figures`)})`, '', 'figures', dayOf(run)])
  return markdown(['table', 'on', 'result', 'run of'], rows)
}

/**
 * @param {string} name
 * @param {Readonly<Record<string, import('./guarantees-results.mjs').Column>>} columns
 */
function renderTable(name, columns) {
  const scenarios = [...new Set(Object.values(columns).flatMap(({ cells }) => Object.keys(cells)))]
  const rows = scenarios.map((scenario) => [scenario, ...Object.values(columns).map(({ cells }) => cells[scenario] ?? '–')])
  return markdown([name, ...Object.keys(columns)], rows)
}

/** @param {unknown} values */
function renderFigures(values) {
  const figures = flatten(values)
  const rows = figures.filter(([, value]) => !isList(value)).map(([path, value]) => [path.join(', '), textOf(value)])
  const lists = figures.flatMap(([path, value]) => (isList(value) ? [`\n${capital(path.join(', '))}:\n\n${renderList(value)}`] : []))
  return markdown(['figure', 'value'], rows) + lists.join('')
}

/** @param {readonly Readonly<Record<string, unknown>>[]} list */
function renderList(list) {
  const names = [...new Set(list.flatMap((member) => Object.keys(member)))]
  return markdown(
    names.map((name) => name.replaceAll('_', ' ')),
    list.map((member) => names.map((name) => textOf(member[name] ?? '–'))),
  )
}

/**
 * @param {unknown} value
 * @returns {value is readonly Readonly<Record<string, unknown>>[]} whether it is a list of items with several figures each
 */
function isList(value) {
  return Array.isArray(value) && value.length > 0 && value.every((member) => typeof member === 'object' && member !== null)
}

/** @param {unknown} value */
function textOf(value) {
  if (!Array.isArray(value)) return String(value)
  return value.length === 0 ? 'none' : value.join(', ')
}

/**
 * @param {unknown} value
 * @param {readonly string[]} path
 * @returns {(readonly [readonly string[], unknown])[]}
 */
function flatten(value, path = []) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [[path, value]]
  return Object.entries(value).flatMap(([name, member]) => flatten(member, [...path, name.replaceAll('_', ' ')]))
}

/** @param {Results} results */
function renderRuns({ runs }) {
  const rows = Object.entries(runs).map(([at, { node, servers }]) => {
    const versions = Object.entries(servers).map(([name, version]) => `${name} ${version}`)
    return [at.replace('T', ' ').replace(/:\d\d(?:\.\d+)?Z$/, ' UTC'), `Node ${node}`, versions.join(', ')]
  })
  return markdown(['run', 'Node', 'servers'], rows)
}

/**
 * @param {readonly string[]} header
 * @param {readonly (readonly string[])[]} rows
 */
function markdown(header, rows) {
  const line = (/** @type {readonly string[]} */ cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`
  return line(header) + line(header.map(() => '---')) + rows.map(line).join('')
}

/** @param {string} name as a heading */
function anchorOf(name) {
  return name
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')
}

/** @param {string} run */
function dayOf(run) {
  return run.slice(0, 10)
}

/** @param {string} text */
function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

// @ts-check
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/**
 * The result of a suite on one server.
 *
 * @typedef {object} Result
 * @property {string} product
 * @property {string} version
 * @property {string} origin
 * @property {string} suite
 * @property {string} date
 * @property {number} passed
 * @property {number} failed
 * @property {number} skipped tests of features that this server does not support
 * @property {readonly string[]} failures names of the tests that failed
 * @property {string} [unavailable] why it could not be tested
 */

const page = fileURLToPath(new URL('../docs/compatibility.md', import.meta.url))
const begin = '<!-- results: written by make test-servers -->'
const end = '<!-- end of results -->'

/** @param {Readonly<Record<string, Result>>} results by the id of the server */
export function writeCompatibilityPage(results) {
  const text = readFileSync(page, 'utf8')
  const [before, rest] = text.split(begin)
  const after = rest?.split(end)[1]
  if (before === undefined || after === undefined) throw new Error(`docs/compatibility.md lacks "${begin}" or "${end}"`)
  writeFileSync(page, `${before}${begin}\n\n${tableOf(Object.values(results))}\n${end}${after}`)
}

/** @param {readonly Result[]} results */
export function tableOf(results) {
  const tested = results.filter(({ unavailable }) => unavailable === undefined)
  const lines = [
    '| server | version | from | suite | passed | failed | skipped | date |',
    '|---|---|---|---|---:|---:|---:|---|',
    ...tested.map(
      ({ product, version, origin, suite, passed, failed, skipped, date }) =>
        `| ${product} | ${version} | ${origin} | \`${suite}\` | ${passed} | ${failed} | ${skipped} | ${date} |`,
    ),
  ]
  const failing = tested.filter(({ failures }) => failures.length > 0)
  for (const { product, version, failures } of failing) {
    lines.push('', `Failed on ${product} ${version}:`, '', ...failures.map((failure) => `- ${escapeMarkdown(failure)}`))
  }
  const missing = results.filter(({ unavailable }) => unavailable !== undefined)
  if (missing.length > 0) lines.push('', 'Could not be tested:', '')
  for (const { product, origin, date, unavailable } of missing)
    lines.push(`- ${product} (${origin}, ${date}): ${escapeMarkdown(String(unavailable))}`)
  return `${lines.join('\n')}\n`
}

/** @param {string} text */
function escapeMarkdown(text) {
  return text.replaceAll(/[<>|{}]/g, (character) => `\\${character}`).replaceAll('\n', ' ')
}

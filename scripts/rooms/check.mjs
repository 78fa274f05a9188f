// @ts-check
// Rejects imports in the wrong direction between the rooms of a package, or between packages, and cycles of files. `rules.mjs` has the rules.
import { fileURLToPath } from 'node:url'
import { cruisePackages } from './cruise.mjs'
import { rules } from './rules.mjs'

/**
 * Lists the imports below `folder`, which contains `packages/`, that break a rule, one per line.
 *
 * @param {string} folder
 * @returns {Promise<string[]>}
 */
export async function wrongImports(folder) {
  const forbidden = rules()
  const { summary } = await cruisePackages(folder, { ruleSet: { forbidden }, validate: true })
  return summary.violations.map(({ from, to, rule, cycle = [] }) => {
    const { comment = '' } = forbidden.find(({ name }) => name === rule.name) ?? {}
    const path = cycle.length === 0 ? '' : ` The cycle is ${[from, ...cycle.map(({ name }) => name)].join(' → ')}.`
    return `${from} imports ${to}, which the rule '${rule.name}' does not allow.${path} ${comment}`.trim()
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const wrong = await wrongImports(fileURLToPath(new URL('../..', import.meta.url)))
  for (const line of wrong) console.error(line)
  process.exit(wrong.length === 0 ? 0 : 1)
}

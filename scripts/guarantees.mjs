// @ts-check
// docs/guarantees.md, and the results from which it is generated. Run directly, it rewrites the page, for a change of its fixed part.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { renderPage } from './guarantees-page.mjs'
import { mergeResults, noResults } from './guarantees-results.mjs'

const docs = fileURLToPath(new URL('../docs/', import.meta.url))
const resultsFile = `${docs}guarantees.json`
const pageFile = `${docs}guarantees.md`

/** @returns {import('./guarantees-results.mjs').Results} */
export function readResults() {
  return existsSync(resultsFile) ? JSON.parse(readFileSync(resultsFile, 'utf8')) : noResults
}

/** @param {Parameters<typeof mergeResults>[1]} found */
export function addResults(found) {
  const results = mergeResults(readResults(), found)
  writeFileSync(resultsFile, `${JSON.stringify(results, null, 1)}\n`)
  writeFileSync(pageFile, renderPage(results))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(pageFile, renderPage(readResults()))

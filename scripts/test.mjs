// @ts-check
// Runs vitest and prints its actual counts as the last line: `N passed, N failed`.
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const results = `${root}.cache/test-results.json`
mkdirSync(`${root}.cache`, { recursive: true })
rmSync(results, { force: true })

const filters = process.argv.slice(2)
const vitest = fileURLToPath(new URL('../node_modules/vitest/vitest.mjs', import.meta.url))
const child = spawn(
  process.execPath,
  [vitest, 'run', '--reporter=default', '--reporter=json', `--outputFile.json=${results}`, ...filters],
  {
    cwd: root,
    stdio: 'inherit',
  },
)
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) process.on(signal, () => child.kill(signal))

/** @param {{ readonly status: string }} result */
const isSkipped = ({ status }) => status !== 'passed' && status !== 'failed'

child.on('exit', (code, signal) => {
  let counts
  try {
    counts = JSON.parse(readFileSync(results, 'utf8'))
  } catch {
    console.error('vitest ended without writing its results.')
    process.exit(code || 1)
  }
  const {
    numPassedTests: passed,
    numFailedTests: failed,
    numPendingTests: pending,
    numTodoTests: todo,
    numFailedTestSuites,
    testResults,
  } = counts
  const skipped = pending + todo
  if (skipped > 0) console.error(`${skipped} tests were skipped; none may be: a test that cannot run fails. They are in:`)
  for (const { name, assertionResults } of testResults) if (assertionResults.some(isSkipped)) console.error(`  ${name}`)
  if (passed + failed === 0) console.error('No test was run.')
  console.log(`${passed} passed, ${failed} failed`)
  const ok = code === 0 && signal === null && failed === 0 && numFailedTestSuites === 0 && skipped === 0 && passed > 0
  process.exit(ok ? 0 : code || 1)
})

// @ts-check
// The runs that take too long for `make test`: the programs in proof/, then the test files of `make test-matrix`, those that only a proof runs
// (scripts/test-selection.mjs), and every file that does more when ACKORD_PROOF is set, which are those that import scripts/test-depth.mjs. The results are written to docs/guarantees.md; anything that was not run keeps its last result there.
//
//   npm run -s proof -- [NAME …] [--tests PART …] [--json]
//
// Names select programs and skip the tests; --tests selects the test files whose path contains this part, and skips the programs that are not
// named. --json prints the figures as the last line.
import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { addResults } from './guarantees.mjs'
import { findTables } from './guarantees-results.mjs'
import { tablesVariable } from './proof-reporter.mjs'
import { serverVersions } from './server-versions.mjs'
import { matrixTests, proofTests, testFiles } from './test-selection.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const options = /** @type {const} */ ({ json: { type: 'boolean', default: false }, tests: { type: 'string', multiple: true } })
const { values, positionals } = parseArgs({ allowPositionals: true, options })
const all = positionals.length === 0 && values.tests === undefined

say('compiling')
const build = spawnSync(process.execPath, [`${root}node_modules/typescript/bin/tsc`, '-b'], { cwd: root, encoding: 'utf8' })
if (build.status !== 0) {
  process.stderr.write(build.stdout + build.stderr)
  process.exit(1)
}

const at = new Date().toISOString()
const programs = all || positionals.length > 0 ? await runPrograms() : { code: 0, figures: undefined, text: '' }
const tests = all || values.tests !== undefined ? runTests() : { code: 0, text: '' }
const tables = [...findTables(programs.text), ...findTables(tests.text)]
const { broken = [], ...figures } = programs.figures ?? {}
addResults({ at, run: { node: process.versions.node, servers: await serverVersions(process.env) }, tables, figures })
say(`${tables.length} tables and ${Object.keys(figures).length} figures are in docs/guarantees.md`)

if (programs.figures !== undefined) console.log(JSON.stringify(programs.figures, null, values.json ? undefined : 2))
process.exitCode = programs.code || tests.code || (Array.isArray(broken) && broken.length > 0 ? 1 : 0)

/** @returns {Promise<{ code: number, figures: Record<string, unknown> | undefined, text: string }>} `text` is their output without the figures */
async function runPrograms() {
  say(`programs: ${positionals.length > 0 ? positionals.join(', ') : 'all'}`)
  const child = spawn(process.execPath, [`${root}proof/dist/main.js`, ...positionals], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    output += chunk
  })
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    text += chunk
    process.stderr.write(chunk)
  })
  /** A killed process has no exit code. @type {number} */
  const code = await new Promise((resolve) => child.on('close', (status) => resolve(status ?? 1)))
  // Standard output is reserved for the figures.
  const figures = output.trim() === '' ? undefined : JSON.parse(output)
  return { code, figures, text }
}

/**
 * Whether a test file imports scripts/test-depth.mjs, directly or through another test module.
 *
 * @param {string} file
 * @param {Set<string>} seen
 * @returns {boolean}
 */
function readsDepth(file, seen = new Set()) {
  if (seen.has(file)) return false
  seen.add(file)
  const text = readFileSync(file, 'utf8')
  if (text.includes('scripts/test-depth.mjs')) return true
  const imported = Array.from(text.matchAll(/ from '(\.[^']+\.ts)'/g), ([, path]) => join(dirname(file), String(path)))
  return imported.some((path) => path.includes('/test/') && readsDepth(path, seen))
}

/** @returns {{ code: number, text: string }} `text` is the output of the tests */
function runTests() {
  const others = new Set([...matrixTests, ...proofTests])
  const files = testFiles.filter((file) => others.has(file) || readsDepth(join(root, file)))
  const chosen = files.filter((file) => values.tests?.some((part) => file.includes(part)) ?? true)
  if (chosen.length === 0) {
    say(`no test file that does more in a proof has ${values.tests?.join(' or ') ?? 'a name'}`)
    return { code: 1, text: '' }
  }
  say(`tests that do more than in \`make test\`, such as all suites on every client: ${chosen.join(', ')}`)
  const printed = `${root}.cache/proof-tables.txt`
  mkdirSync(`${root}.cache`, { recursive: true })
  rmSync(printed, { force: true })
  const { status } = spawnSync(process.execPath, [`${root}scripts/test.mjs`, '--reporter=./scripts/proof-reporter.mjs', ...chosen], {
    cwd: root,
    env: { ...process.env, ACKORD_PROOF: '1', [tablesVariable]: printed },
    stdio: ['ignore', process.stderr.fd, 'inherit'],
  })
  return { code: status ?? 1, text: readPrinted(printed) }
}

/** @param {string} file */
function readPrinted(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    say('vitest ended without telling what the tests printed')
    return ''
  }
}

/** @param {string} text */
function say(text) {
  process.stderr.write(`proof: ${text}\n`)
}

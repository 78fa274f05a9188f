// @ts-check
// The runs that take too long for `make test`: the programs in proof/, then every test file that does more when ACKORD_PROOF is set.
// `npm run -s proof -- [NAME …] [--json]`; names leave out the tests, --json ends with the figures as one line.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const root = fileURLToPath(new URL('..', import.meta.url))
const { values, positionals } = parseArgs({ allowPositionals: true, options: { json: { type: 'boolean', default: false } } })

const build = spawnSync(process.execPath, [`${root}node_modules/typescript/bin/tsc`, '-b'], { cwd: root, encoding: 'utf8' })
if (build.status !== 0) {
  process.stderr.write(build.stdout + build.stderr)
  process.exit(1)
}

// Standard output is for the figures alone.
const proof = spawnSync(process.execPath, [`${root}proof/dist/main.js`, ...positionals], {
  cwd: root,
  stdio: ['ignore', 'pipe', 'inherit'],
})
const figures = proof.stdout.toString().trim()
const tests = positionals.length > 0 ? 0 : runTests()

if (figures !== '') console.log(values.json ? figures : JSON.stringify(JSON.parse(figures), null, 2))
// Killed, it has no status.
process.exitCode = (proof.status ?? 1) || tests

/** @returns {number} the exit code */
function runTests() {
  const files = testFiles().filter((file) => readFileSync(root + file, 'utf8').includes('ACKORD_PROOF'))
  if (files.length === 0) return 0
  const { status } = spawnSync(process.execPath, [`${root}scripts/test.mjs`, ...files], {
    cwd: root,
    env: { ...process.env, ACKORD_PROOF: '1' },
    stdio: ['ignore', process.stderr.fd, 'inherit'],
  })
  return status ?? 1
}

function testFiles() {
  const folders = readdirSync(`${root}packages`).map((name) => `packages/${name}/test`)
  return folders.flatMap((folder) =>
    readdirSync(root + folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.test.ts'))
      .map((file) => `${folder}/${file}`),
  )
}

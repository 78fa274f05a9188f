// @ts-check
// Tests what users get: the packed packages, the projects that create-ackord generates, projects in the layout of Nest's starter, the pages to start
// with, and the packed packages on Bun and Deno. Arguments choose some of them by a part of their titles. The last line has the counts: `N passed, N failed`.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { packPackages } from './pack-packages.mjs'
import { runCommand } from './package-tests/commands.mjs'
import { nestStarters } from './package-tests/nest-starter-files.mjs'
import { nestStarterChecks } from './package-tests/nest-starters.mjs'
import { Report } from './package-tests/report.mjs'
import { createRuntimeProject, runtimes, testRuntime } from './package-tests/runtimes.mjs'
import { pageChecks, startPages } from './package-tests/start-pages.mjs'
import { createProjects, projectChecks, templates } from './package-tests/templates.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const filters = process.argv.slice(2)
const isChosen = (/** @type {{ title: string }} */ { title }) => filters.length === 0 || filters.some((filter) => title.includes(filter))
const [chosenTemplates, chosenStarters, chosenPages, chosenRuntimes] = [
  templates.filter(isChosen),
  nestStarters.filter(isChosen),
  startPages.filter(isChosen),
  runtimes.filter(isChosen),
]
if (chosenTemplates.length + chosenStarters.length + chosenPages.length + chosenRuntimes.length === 0) {
  console.error(
    `Nothing has a title with ${filters.join(' or ')}. There are:\n${[...templates, ...nestStarters, ...startPages, ...runtimes].map(({ title }) => `  ${title}`).join('\n')}`,
  )
  process.exit(2)
}

const folder = mkdtempSync(join(tmpdir(), 'ackord-packages-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) process.on(signal, () => process.exit(1))
const report = new Report()

/** @type {ReturnType<typeof packPackages>} */
let packed = []
const isPacked = await report.check('all packages are built and packed', async () => {
  await runCommand('npx tsc -b', { cwd: root })
  mkdirSync(join(folder, 'tarballs'))
  packed = packPackages(join(folder, 'tarballs'))
})
// Projects and pages spend much of their time waiting for npm and for servers.
if (isPacked) await Promise.all([testProjects(), testStartersAndPages(), testRuntimes()])
report.end()
process.exit(report.failed === 0 ? 0 : 1)

async function testProjects() {
  /** @type {Awaited<ReturnType<typeof createProjects>>} */
  let projects = []
  const title = `create-ackord generates ${chosenTemplates.length} projects, and npm installs them`
  if (chosenTemplates.length > 0) {
    await report.check(title, async () => {
      projects = await createProjects(chosenTemplates, join(folder, 'workspace'), packed)
    })
  }
  for (const project of projects) {
    const { checks, cleanUp } = projectChecks(project)
    await report.series(project.title, checks, cleanUp)
  }
}

async function testStartersAndPages() {
  for (const starter of chosenStarters) {
    const { checks, cleanUp } = nestStarterChecks(starter, join(folder, 'starters'), packed)
    await report.series(starter.title, checks, cleanUp)
  }
  for (const page of chosenPages) {
    const { checks, cleanUp } = pageChecks(page, join(folder, 'pages'), packed)
    await report.series(page.title, checks, cleanUp)
  }
}

async function testRuntimes() {
  if (chosenRuntimes.length === 0) return
  const project = join(folder, 'runtimes')
  const title = `npm installs the packages and ${chosenRuntimes.map((runtime) => runtime.title).join(' and ')}`
  const isInstalled = await report.check(title, () => createRuntimeProject(chosenRuntimes, project, packed))
  if (isInstalled) for (const runtime of chosenRuntimes) await testRuntime(runtime, project, report)
}

// @ts-check
// Builds the page of @ackord/dashboard into packages/dashboard/dist-page, if its sources are newer than the last build:
//     node scripts/dashboard-page.mjs
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'vite'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = join(root, 'packages/dashboard')
const [page, output] = [join(folder, 'page'), join(folder, 'dist-page')]

/** All files of the page together, gzipped. */
const maxSize = 60_000

if (isStale()) {
  await alone(async () => {
    if (isStale()) await buildPage()
  })
}
console.log(`packages/dashboard/dist-page: ${(gzippedSize(output) / 1000).toFixed(1)} kB gzipped`)

function isStale() {
  const built = join(output, 'index.html')
  if (!existsSync(built)) return true
  const since = statSync(built).mtimeMs
  const sources = [...filesIn(page), join(folder, 'src/api/types.ts'), fileURLToPath(import.meta.url), join(root, 'package-lock.json')]
  return sources.some((file) => statSync(file).mtimeMs > since)
}

async function buildPage() {
  checkTypes()
  // Tests build the page, too. With their NODE_ENV the libraries would be those for development.
  process.env['NODE_ENV'] = 'production'
  // Beside the last build, which a test may be reading.
  const next = `${output}.${process.pid}`
  try {
    await build({
      configFile: false,
      root: page,
      // The dashboard may be mounted below any path.
      base: './',
      logLevel: 'warn',
      oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
      // The workspace also contains Preact 10, which @preact/signals would find.
      resolve: { dedupe: ['preact'] },
      build: {
        outDir: next,
        emptyOutDir: true,
        target: 'es2022',
        // The content security policy allows neither data URLs nor inline scripts.
        assetsInlineLimit: 0,
        modulePreload: false,
      },
    })
    const size = gzippedSize(next)
    if (size > maxSize) throw new Error(`The page has ${size} bytes gzipped; at most ${maxSize} are allowed.`)
    rmSync(output, { recursive: true, force: true })
    renameSync(next, output)
  } finally {
    rmSync(next, { recursive: true, force: true })
  }
}

/**
 * Runs `work` in one process at a time: test files that need the page start in parallel.
 *
 * @param {() => Promise<void>} work
 */
async function alone(work) {
  const lock = join(root, '.cache/dashboard-page.lock')
  mkdirSync(dirname(lock), { recursive: true })
  while (!takeLock(lock)) await setTimeout(200)
  try {
    await work()
  } finally {
    rmSync(lock)
  }
}

/** Whether this process has got the lock. A lock of a process that has died is removed. @param {string} lock */
function takeLock(lock) {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' })
    return true
  } catch {
    if (!existsSync(lock)) return false
    const owner = Number(readFileSync(lock, 'utf8'))
    // The owner may not have written its number yet.
    if (owner > 0 && !isRunning(owner)) rmSync(lock, { force: true })
    return false
  }
}

/** @param {number} pid */
function isRunning(pid) {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

function checkTypes() {
  const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc')
  const { status } = spawnSync(process.execPath, [compiler, '-p', page], { stdio: 'inherit' })
  if (status !== 0) throw new Error('The page does not type-check.')
}

/** @param {string} below */
function gzippedSize(below) {
  return filesIn(below).reduce((sum, file) => sum + gzipSync(readFileSync(file), { level: 9 }).byteLength, 0)
}

/** @param {string} below */
function filesIn(below) {
  return readdirSync(below, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
}

// @ts-check
// Runs on Bun and Deno, in a project with the packed packages: the essentials of stores, brokers and the dashboard, against real servers. Prints a line
// of JSON for each check. The arguments name the parts. The variable NAME is the word with which everything on the servers begins.
import { Checks, textOf } from './checks.mjs'

/** These occupy the only thread, and would delay what waits for a server. */
const isBusy = (/** @type {string} */ part) => part === 'memory' || part === 'sqlite'
const parts = process.argv.slice(2)

/** @param {import('./checks.mjs').Result} result */
const print = (result) => console.log(JSON.stringify(result))

for (const part of parts.filter(isBusy)) await run(part)
// Each has a server of its own, so they run at the same time.
await Promise.all(parts.filter((part) => !isBusy(part)).map(run))

/** @param {string} part */
async function run(part) {
  try {
    const { register } = await import(`./part-${part}.mjs`)
    const checks = new Checks(part)
    const close = await register(checks)
    await checks.run(print)
    await close()
  } catch (error) {
    print({ part, suite: part, check: 'begins and ends', milliseconds: 0, error: textOf(error) })
  }
}

// Everything is closed: nothing may keep the process running.
const started = performance.now()
const ends = { part: 'process', suite: 'process', check: 'ends when everything is closed' }
const late = setTimeout(() => {
  print({ ...ends, milliseconds: 30_000, error: 'Something keeps the process running.' })
  process.exit(0)
}, 30_000)
late.unref()
process.on('exit', () => {
  const milliseconds = Math.round(performance.now() - started)
  if (milliseconds < 30_000) print({ ...ends, milliseconds })
})

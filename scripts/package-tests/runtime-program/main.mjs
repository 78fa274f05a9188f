// @ts-check
// Runs on Bun and Deno, in a project with the packed packages: the essentials of stores, brokers and the dashboard, against real servers. Prints a line
// of JSON for each check. The arguments name the parts. The variable NAME is the word with which everything on the servers begins.
import { Checks, textOf } from './checks.mjs'

/** Each part has servers of its own, so they run at the same time. */
const parts = process.argv.slice(2)

/** @param {import('./checks.mjs').Result} result */
const print = (result) => console.log(JSON.stringify(result))

await Promise.all(
  parts.map(async (part) => {
    try {
      /** @type {{ register(checks: Checks): Promise<() => Promise<void>> }} */
      const { register } = await import(`./part-${part}.mjs`)
      const checks = new Checks(part)
      const close = await register(checks)
      await checks.run(print)
      await close()
    } catch (error) {
      print({ part, suite: part, check: 'can be loaded', milliseconds: 0, error: textOf(error) })
    }
  }),
)

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

// @ts-check
// Compiles the packages and runs the demo, with the arguments of this script. What it does meanwhile is printed to stderr: stdout is that of the demo.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const main = `${root}packages/cli/dist/main.js`

console.error(
  existsSync(main) ? 'Compiling what has changed since the last time.' : 'Compiling the packages; the first time takes half a minute.',
)
const startedAt = performance.now()
const compiler = spawn(`${root}node_modules/.bin/tsc`, ['-b'], { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] })
const [code] = await once(compiler, 'exit')
if (code !== 0) {
  console.error('The packages do not compile; the errors are above.')
  process.exit(1)
}
if (process.argv.includes('--dashboard')) {
  const builder = spawn(process.execPath, [`${root}scripts/dashboard-page.mjs`], {
    cwd: root,
    stdio: ['ignore', process.stderr.fd, 'inherit'],
  })
  const [built] = await once(builder, 'exit')
  if (built !== 0) process.exit(1)
}
console.error(
  `Compiled in ${Math.round((performance.now() - startedAt) / 1000)} s. Running: ackord demo ${process.argv.slice(2).join(' ')}`.trimEnd(),
)
console.error()
// In this process: Ctrl-C then reaches the demo alone, which removes its data.
process.argv.splice(1, 1, main, 'demo')
await import(main)

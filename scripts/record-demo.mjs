// @ts-check
// Records `make demo` as docs/public/demo.svg. Run it again when the demo prints something else; a test compares the two.
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { capture } from './site/capture.mjs'
import { recordedLines, recording } from './site/recording.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const file = join(root, 'docs/public/demo.svg')
const limit = 60_000
// The progress bar with its numbers fits into one line.
const columns = 84

// The recording is of the demo, not of the installation and the compiler.
const { status } = spawnSync('make', ['build'], { cwd: root, stdio: 'inherit' })
if (status !== 0) process.exit(1)
const svg = recording(await capture('make demo', { cwd: root, columns }), {
  prompt: 'make demo',
  columns,
  title: 'A run of make demo',
  description:
    'Orders arrive, some twice; some fail at first; the service is killed and restarted; the broker is down for a while. In the end no order is lost and none is applied twice.',
})
const size = Buffer.byteLength(svg)
if (size > limit) throw new Error(`The recording has ${size} bytes, more than ${limit}. Raise the time between its frames.`)
writeFileSync(file, svg)
console.log(`${recordedLines(svg).join('\n')}\n\n${file}: ${size} bytes`)

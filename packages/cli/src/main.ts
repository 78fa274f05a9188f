#!/usr/bin/env node
import { systemRuntime } from '@ackord/core'
import { CommandError, exitCode, interruption } from './output/errors.ts'
import { Secrets } from './output/secrets.ts'
import { run } from './program.ts'

const secrets = new Secrets()
const stopping = new AbortController()
const exitCodeOf = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const
/** Longer than an orderly stop takes by default; whoever watches over the process must not wait for one that cannot end. */
const stopLimit = 60_000
let ended = false

for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    // Whoever asks twice does not want to wait. At the end there is only a reader to wait for.
    if (stopping.signal.aborted || ended) process.exit(exitCodeOf[signal])
    stopping.abort(interruption())
  })
}

// A reader that has seen enough (`ackord list | head`) is no failure. A relay goes on without one, and so does whatever has something to stop.
let stopsItself = false
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (!stopsItself) process.exit(error.code === 'EPIPE' ? (process.exitCode ?? exitCode.ok) : exitCode.failed)
})
// A failure that nobody reads has its exit code.
process.stderr.on('error', () => {})

// A client that fails in a way nobody waits for must not print a stack, in which there may be an address with its password. What has
// something to stop stops it: nothing stays leased, and nothing that was made for a while stays behind.
let failed = false
for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
  process.on(event, (error: unknown) => {
    const text = `failed unexpectedly: ${error instanceof Error ? error.message : String(error)}`
    if (!failed) systemRuntime.setTimeout(() => process.exit(exitCode.failed), stopLimit, { keepAlive: false })
    failed = true
    if (ended) process.exitCode = exitCode.failed
    if (ended || stopping.signal.aborted) console.error(`ackord: ${secrets.mask(text)}`)
    else stopping.abort(new CommandError(text, { exitCode: exitCode.failed, cause: error }))
  })
}

const code = await run({
  args: process.argv.slice(2),
  environment: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
  secrets,
  signal: stopping.signal,
  onStopsItself() {
    stopsItself = true
  },
})
ended = true
process.exitCode = code === exitCode.ok && failed ? exitCode.failed : code

// All is closed by now. A client that holds on to a timer must not keep the user waiting. A slow reader gets all of a listing first: `process.exit()`
// drops what a pipe has not taken yet. But whoever told the command to stop does not wait for a reader.
const leave = () => void systemRuntime.setTimeout(() => process.exit(), 500, { keepAlive: false })
if (stopping.signal.aborted) leave()
else process.stdout.write('', leave)

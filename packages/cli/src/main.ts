#!/usr/bin/env node
import { systemRuntime } from '@ackord/core'
import { CommandError, exitCode, interruption } from './output/errors.ts'
import { Secrets } from './output/secrets.ts'
import { run } from './program.ts'
import { processSuspension } from './suspension.ts'

const secrets = new Secrets()
const stopping = new AbortController()
const exitCodeOf = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const
/** Longer than an orderly stop takes by default; a supervisor must not wait for a process that cannot end. */
const stopLimit = 60_000
let ended = false

for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    // A second signal means that the user does not want to wait. At the end only a slow reader can be waited for.
    if (stopping.signal.aborted || ended) process.exit(exitCodeOf[signal])
    stopping.abort(interruption())
  })
}

// A reader that has closed the pipe (`ackord list | head`) is not a failure. A relay continues without one, and so does every command that has
// something to stop.
let stopsItself = false
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (!stopsItself) process.exit(error.code === 'EPIPE' ? (process.exitCode ?? exitCode.ok) : exitCode.failed)
})
// If stderr is closed too, the exit code reports the failure.
process.stderr.on('error', () => {})

// A client that fails outside of any awaited call must not print a stack, which may contain a URL with its password. A command with something to stop
// stops it: no record stays leased, and no temporary data is left behind.
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
  suspension: processSuspension,
  onStopsItself() {
    stopsItself = true
  },
})
ended = true
process.exitCode = code === exitCode.ok && failed ? exitCode.failed : code

// Everything is closed by now. A client that keeps a timer must not delay the exit. A slow reader gets all of a listing first: `process.exit()` drops
// data that a pipe has not accepted yet. But a command that was stopped does not wait for a reader.
const leave = () => void systemRuntime.setTimeout(() => process.exit(), 500, { keepAlive: false })
if (stopping.signal.aborted) leave()
else process.stdout.write('', leave)

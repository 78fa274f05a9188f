// @ts-check
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/**
 * A process cannot clean up after its own SIGKILL. So the first server started in a process also starts a reaper, in
 * a separate session, which holds the other end of a pipe and knows what to remove when the pipe breaks.
 *
 * @type {import('node:stream').Writable | undefined}
 */
let pipe

/**
 * @param {number} pid
 * @param {NodeJS.Signals} signal ends it quickly, when its data is no longer needed
 */
export function adoptProcess(pid, signal) {
  tell({ pid, signal })
}

/** @param {number} pid */
export function releaseProcess(pid) {
  tell({ pid, gone: true })
}

/** @param {string} path */
export function adoptPath(path) {
  tell({ path })
}

/** @param {string} path */
export function releasePath(path) {
  tell({ path, gone: true })
}

/** @param {object} change */
function tell(change) {
  pipe ??= startReaper()
  pipe.write(`${JSON.stringify(change)}\n`)
}

function startReaper() {
  const reaper = spawn(process.execPath, [fileURLToPath(new URL('reaper.mjs', import.meta.url))], {
    detached: true,
    cwd: '/',
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  reaper.unref()
  // Node treats a pipe as a socket. Neither it nor the reaper may keep this process alive.
  const stdin = /** @type {import('node:net').Socket} */ (reaper.stdin)
  stdin.unref()
  stdin.on('error', () => {})
  return stdin
}

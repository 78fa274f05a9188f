// @ts-check

/**
 * @param {number} pid negative for a process group
 * @param {NodeJS.Signals | 0} signal 0 only asks
 * @returns {boolean} whether it was there
 */
export function signalProcess(pid, signal) {
  try {
    process.kill(pid, signal)
    return true
  } catch {
    return false
  }
}

/**
 * SIGKILL goes to the whole group; any other signal to its first process, which knows what to do with the rest.
 *
 * @param {number} pid
 * @param {NodeJS.Signals} signal
 */
export function askToEnd(pid, signal) {
  signalProcess(signal === 'SIGKILL' ? -pid : pid, signal)
  signalProcess(-pid, 'SIGCONT') // a stopped process would not see the other one
}

/**
 * Its first process may be gone and others still be writing, as when initdb is interrupted.
 *
 * @param {number} pid
 */
export function isGroupGone(pid) {
  return !signalProcess(pid, 0) && !signalProcess(-pid, 0)
}

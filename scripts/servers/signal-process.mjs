// @ts-check

/**
 * @param {number} pid negative for a process group
 * @param {NodeJS.Signals | 0} signal 0 only checks
 * @returns {boolean} whether the process existed
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
 * Sends SIGKILL to the whole group; any other signal to its first process, which handles the others.
 *
 * @param {number} pid
 * @param {NodeJS.Signals} signal
 */
export function askToEnd(pid, signal) {
  signalProcess(signal === 'SIGKILL' ? -pid : pid, signal)
  signalProcess(-pid, 'SIGCONT') // a stopped process would not receive the other signal
}

/**
 * Checks the whole group: its first process may have ended while others still write, as when initdb is interrupted.
 *
 * @param {number} pid
 */
export function isGroupGone(pid) {
  return !signalProcess(pid, 0) && !signalProcess(-pid, 0)
}

// @ts-check
import { spawn } from 'node:child_process'
import { once } from 'node:events'

/** Long enough for an installation on a busy machine; a command that hangs must not hold up the run. */
const limit = 300_000

/**
 * @typedef {object} CommandOptions
 * @property {string} cwd
 * @property {Readonly<Record<string, string>>} [environment] added to that of this process
 */

/**
 * Runs a command of a shell to its end; resolves to its output. Rejects with everything it has printed if it fails.
 *
 * @param {string} command
 * @param {CommandOptions} options
 */
export async function runCommand(command, options) {
  const { output, errors, code, signal } = await launch(command, options).ended
  if (code !== 0) throw new Error(`'${command}' ended with ${code ?? signal}:\n${output}${errors}`)
  return output
}

/**
 * Starts a program and resolves when it has printed the pattern.
 *
 * @param {string} command
 * @param {RegExp} ready
 * @param {CommandOptions} options
 */
export async function startCommand(command, ready, options) {
  // The shell is replaced, so that a signal reaches the program itself.
  const program = launch(`exec ${command}`, options)
  await program.says(ready)
  return {
    /**
     * Sends SIGTERM, which must end the program with 0, or with the signal itself, if it sends that to itself at the end. Resolves to its output.
     *
     * @param {{ bySignal?: boolean }} [options]
     */
    async stop({ bySignal = false } = {}) {
      program.child.kill('SIGTERM')
      const { output, errors, code, signal } = await program.ended
      if (code !== 0 && !(bySignal && signal === 'SIGTERM'))
        throw new Error(`After SIGTERM '${command}' ended with ${code ?? signal}:\n${output}${errors}`)
      return output
    },
    /** For a run that has failed. */
    async kill() {
      program.child.kill('SIGKILL')
      await program.ended
    },
  }
}

/** @param {string} command @param {CommandOptions} options */
function launch(command, { cwd, environment = {} }) {
  const env = { ...process.env, NO_COLOR: '1', npm_config_update_notifier: 'false', ...environment }
  const child = spawn('sh', ['-c', command], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const timer = setTimeout(() => child.kill('SIGKILL'), limit)
  let output = ''
  let errors = ''
  const hear = (/** @type {Buffer} */ chunk, /** @type {boolean} */ isError) => {
    if (isError) errors += chunk
    else output += chunk
    child.emit('heard')
  }
  child.stdout.on('data', (chunk) => hear(chunk, false))
  child.stderr.on('data', (chunk) => hear(chunk, true))
  let isOver = false
  const ended = once(child, 'close').then(([code, signal]) => {
    isOver = true
    clearTimeout(timer)
    return { output, errors, code, signal }
  })
  return {
    child,
    ended,
    async says(/** @type {RegExp} */ pattern) {
      while (!pattern.test(output + errors)) {
        if (isOver) throw new Error(`'${command}' ended before it printed ${pattern}:\n${output}${errors}`)
        await Promise.race([once(child, 'heard'), ended])
      }
    },
  }
}

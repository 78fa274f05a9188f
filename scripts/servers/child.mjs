// @ts-check
import { spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { insideRoot } from './foreign/root.mjs'
import { adoptProcess, releaseProcess } from './orphans.mjs'
import { askToEnd, isGroupGone, signalProcess } from './signal-process.mjs'
import { waitUntil } from './wait-until.mjs'

/**
 * @typedef {object} ChildOptions
 * @property {string} file
 * @property {readonly string[]} args
 * @property {string} directory its working directory
 * @property {string} log the file that its output is appended to
 * @property {import('./account.mjs').Account | undefined} [account] Default: that of this process.
 * @property {Readonly<Record<string, string>> | undefined} [env] Default: none.
 * @property {NodeJS.Signals | undefined} [discardSignal] ends it immediately when its data is no longer needed.
 *   Default: SIGKILL.
 * @property {string | undefined} [root] the unpacked system in which it runs. Default: that of the machine.
 */

/** @type {Set<Child>} */
const running = new Set()
let closed = false

/** A process in its own group (Ctrl-C in the terminal does not reach it) that does not outlive this one. */
export class Child {
  /** @type {string} */
  #log
  #logStart = 0
  /** @type {NodeJS.Signals} */
  #discardSignal
  /** @type {string | undefined} */
  #outcome
  /** Set once: later the pid may belong to another process. */
  #isGone = false

  /** @param {ChildOptions} options */
  constructor({ file, args, directory, log, account, env, discardSignal = 'SIGKILL', root = '' }) {
    if (closed) throw new Error('everything is being stopped')
    const output = openSync(log, 'a')
    this.#log = log
    this.#logStart = readFileSync(log).length
    this.#discardSignal = discardSignal
    const wanted = { file, args, env: { ...inherited(), HOME: directory, TMPDIR: directory, ...env } }
    const command = root === '' ? wanted : insideRoot(root, directory, account, wanted)
    // The shell waits for a line before it becomes the server. The line is written after the reaper knows the pid, so that
    // killing this process at any time cannot leave an unknown server behind.
    const child = spawn('/bin/sh', ['-c', 'read -r _ <&3 && exec "$@" 3<&-', 'sh', command.file, ...command.args], {
      detached: true,
      cwd: directory,
      env: command.env,
      stdio: ['ignore', output, output, 'pipe'],
      // `chroot` needs root, and changes to the account itself.
      ...(root === '' ? account : undefined),
    })
    child.on('error', () => {}) // reported by the missing pid
    closeSync(output)
    if (child.pid === undefined) throw new Error(`cannot start ${file}`)
    this.pid = child.pid
    adoptProcess(child.pid, discardSignal)
    running.add(this)
    child.unref()
    const gate = /** @type {import('node:net').Socket} */ (child.stdio[3])
    gate.on('error', () => {})
    gate.end('\n')
    gate.unref()

    /** @type {Promise<string>} resolves to a description of how the process ended */
    this.exited = new Promise((resolve) => {
      child.on('exit', (code, signal) => {
        this.#outcome = signal === null ? `exit code ${code}` : `signal ${signal}`
        this.#isGone = isGroupGone(this.pid)
        running.delete(this)
        releaseProcess(this.pid)
        resolve(this.#outcome)
      })
    })
  }

  /** How the process ended; `undefined` while it runs. */
  get outcome() {
    return this.#outcome
  }

  /** The output of the process since it started. */
  get output() {
    return readFileSync(this.#log).subarray(this.#logStart).toString()
  }

  /**
   * Sends the signal to the whole group. Resolves when the process has ended, if the signal is meant to end it.
   *
   * @param {NodeJS.Signals} signal
   */
  async kill(signal) {
    if (this.#outcome !== undefined) return
    signalProcess(-this.pid, signal)
    if (['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGQUIT'].includes(signal)) await this.#gone(`${signal} ending the process`)
  }

  /**
   * Resolves when no process of the group is left.
   *
   * @param {NodeJS.Signals} [signal]
   */
  async end(signal = this.#discardSignal) {
    if (this.#outcome === undefined) askToEnd(this.pid, signal)
    await this.#gone('the end').catch(() => signalProcess(-this.pid, 'SIGKILL'))
  }

  /** @param {string} what */
  async #gone(what) {
    const isGone = () => {
      if (this.#outcome !== undefined) this.#isGone ||= isGroupGone(this.pid)
      return this.#isGone
    }
    await waitUntil(what, isGone, { interval: 5 })
  }
}

/** A minimal environment: PGPORT, RABBITMQ_NODENAME and similar variables refer to other servers. */
function inherited() {
  const names = ['PATH', 'LD_LIBRARY_PATH']
  return Object.fromEntries(names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])))
}

/**
 * For commands that prepare a server, such as initdb.
 *
 * @param {ChildOptions} options
 */
export async function runToEnd(options) {
  const child = new Child(options)
  await waitUntil(`the end of ${options.file}`, () => child.outcome !== undefined, { timeout: 60_000 })
  if (child.outcome !== 'exit code 0') throw new Error(describeEnd(options.file, child))
}

/**
 * @param {string} name
 * @param {Child} child
 */
export function describeEnd(name, child) {
  return `${name} ended with ${child.outcome}. ${lastLines(child)}`
}

/** @param {Child} child */
export function lastLines(child) {
  const output = child.output.trim()
  if (output === '') return 'It printed nothing.'
  return ['Its last lines:', ...output.split('\n').slice(-10)].join('\n  ')
}

/** Stops all children; none can be started afterwards. */
export async function endAllChildren() {
  closed = true
  await Promise.all([...running].map((child) => child.end()))
}
